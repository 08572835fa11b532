// The parts of a decoder, in the terms of all families: attention with rotary positions, a
// feed-forward, norms, residuals.
//
// Owns: DecoderConfig, and reading what most families write alike.
// Does not own: what a family's config.json means beyond that (llama.h, qwen.h, ...), layers and
// costs (decoder_model.h), modules (src/model/decoder_layer.h).
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "family/config_reader.h"
#include "family/operators.h"
#include "family/rope.h"

namespace sluice::detail {

// Places of a block's norms: before attention and before the feed-forward; behind them, before the
// result is added; both.
enum class NormPlaces { kBefore, kBehind, kBoth };

// Norms of queries and keys before they are turned: none, of every head, of all heads together.
enum class HeadNorms { kNone, kEach, kTogether };

// Facts that may differ from block to block.
struct BlockConfig {
  std::int64_t window = 0;  // a token sees itself and the window - 1 before it; 0: all before it
  int rope = 0;             // index in DecoderConfig::ropes; -1: queries and keys are not turned
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): by subject; there is one a model.
struct DecoderConfig {
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  std::int64_t max_position_embeddings = 0;  // limit for rope types that need it, not for sequences
  // The row of the embedding that takes no gradient and starts as zeros; -1: none.
  std::int64_t padding_row = -1;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;

  NormKind norm = NormKind::kRms;
  NormPlaces norm_places = NormPlaces::kBefore;
  double norm_eps = 1e-6;

  // Biases of q, k, v; of the attention's output; of gate, up, down.
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  // One matrix qkv_proj, of q, k and v in this order; one gate_up_proj.
  bool fused_qkv = false, fused_gate_up = false;
  bool plain_mlp = false;  // c_proj(activation(c_fc(x))) in place of a gated one
  HeadNorms head_norms = HeadNorms::kNone;
  double attention_dropout = 0.0;
  double residual_dropout = 0.0,
         embedding_dropout = 0.0;         // dropout of a block's output; of looked-up embeddings
  std::optional<double> attention_scale;  // none: 1 / sqrt(head_dim)
  bool unseen_is_mean = false;            // a token that sees none gets the mean of all, else zeros
  std::optional<double> attention_cap;    // scores s become cap * tanh(s / cap)
  Activation activation = Activation::kSilu;

  double embedding_scale = 1.0;
  bool embedding_scale_in_weight_type = false;  // rounded to it first
  double residual_scale = 1.0;                  // scale of a block's output
  double logit_divisor = 1.0;
  std::optional<double> logit_cap;

  std::vector<RopeConfig> ropes = {RopeConfig()};
  bool wide_rope = false;           // queries and keys are turned in float32
  std::int64_t rotary_dim = 0;      // the channels of a head that are turned
  std::vector<BlockConfig> blocks;  // num_layers

  std::int64_t query_width() const { return num_attention_heads * head_dim; }
  std::int64_t key_value_width() const { return num_key_value_heads * head_dim; }
};

// The sizes that a class of transformers 5.23 has where its config.json does not give them. Version
// 4 of transformers wrote only the fields of a nested configuration that differ from its class.
struct DecoderSizes {
  std::int64_t vocab_size, hidden_size, intermediate_size, num_layers, num_attention_heads;
};

// The keys that families write differently: names and transformers' defaults.
struct DecoderKeys {
  DecoderSizes sizes;
  // The meaning of an absent key; null means num_attention_heads. None: absent means that too.
  std::optional<std::int64_t> num_key_value_heads = std::nullopt;
  std::optional<std::int64_t> head_dim = std::nullopt;  // none: hidden_size / num_attention_heads
  bool heads_divide_hidden_size = false;                // also where head_dim is given
  std::int64_t max_position_embeddings = 2048;
  const char* norm_eps = "rms_norm_eps";
  double default_norm_eps = 1e-6;
  const char* activation = "hidden_act";
  const char* default_activation = "silu";
  std::optional<std::int64_t> pad_token_id = std::nullopt;
  bool tie_word_embeddings = false;
};

// By transformers' name, or that of `usual` where it is absent. Throws Error(kInput).
Activation read_activation(const ConfigReader& config, const std::string& key,
                           const std::string& usual);

// Sizes, norms' epsilon, activation, padding row, ties, dropout; blocks without windows. Leaves the
// rope to the family. Throws Error(kInput) naming the field.
DecoderConfig read_decoder_config(const ConfigReader& config, const DecoderKeys& keys);

// "sliding_attention" or "full_attention" of every block: whether it has a window. Empty: the key
// is absent. Throws Error(kInput) for other types and another number of them.
std::vector<bool> read_layer_types(const ConfigReader& config, std::int64_t num_layers);

// An integer of at least 1; none where it is null. absent: where there is no such key.
std::optional<std::int64_t> read_window(const ConfigReader& config,
                                        std::optional<std::int64_t> absent);

// Gives a window to the blocks that layer_types names, or to those of `has_window` where that key
// is absent. Throws Error(kInput) where there is one without a window.
void set_windows(DecoderConfig& out, const ConfigReader& config, std::optional<std::int64_t> window,
                 const std::vector<bool>& has_window);

}  // namespace sluice::detail
