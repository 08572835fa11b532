#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "family/config_reader.h"
#include "family/operators.h"
#include "family/rope.h"

namespace sluice::detail {

// Norms before attention and feed-forward, behind them (before the residual sum), or both.
enum class NormPlaces { kBefore, kBehind, kBoth };

// Norms of queries and keys: none, per head, or over all heads.
enum class HeadNorms { kNone, kEach, kTogether };

struct BlockConfig {
  std::int64_t window = 0;  // tokens that a token attends to, including itself; 0: all
  int rope = 0;             // index into DecoderConfig::ropes; -1: no rotation
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): by subject; there is one a model.
struct DecoderConfig {
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  std::int64_t max_position_embeddings = 0;  // used by some rope types; sequences may be longer
  // Embedding row without gradient, initially zero; -1: none.
  std::int64_t padding_row = -1;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;

  NormKind norm = NormKind::kRms;
  NormPlaces norm_places = NormPlaces::kBefore;
  double norm_eps = 1e-6;

  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool fused_qkv = false, fused_gate_up = false;
  bool plain_mlp = false;  // c_proj(activation(c_fc(x))) instead of a gated MLP
  HeadNorms head_norms = HeadNorms::kNone;
  double attention_dropout = 0.0;
  double residual_dropout = 0.0, embedding_dropout = 0.0;
  std::optional<double> attention_scale;  // default: 1 / sqrt(head_dim)
  bool fully_masked_gets_mean = false;    // a fully masked token gets the mean of all values
  std::optional<double> attention_cap;    // scores s become cap * tanh(s / cap)
  Activation activation = Activation::kSilu;

  double embedding_scale = 1.0;
  bool embedding_scale_in_weight_type = false;  // round the scale to the weights' dtype
  double residual_scale = 1.0;                  // factor of a block's output
  double logit_divisor = 1.0;
  std::optional<double> logit_cap;

  std::vector<RopeConfig> ropes = {RopeConfig()};
  bool wide_rope = false;       // rotate in float32
  std::int64_t rotary_dim = 0;  // rotated channels per head
  std::vector<BlockConfig> blocks;

  std::int64_t query_width() const { return num_attention_heads * head_dim; }
  std::int64_t key_value_width() const { return num_key_value_heads * head_dim; }
};

// Defaults of transformers 5.23. transformers 4 omitted them in nested configurations.
struct DecoderSizes {
  std::int64_t vocab_size, hidden_size, intermediate_size, num_layers, num_attention_heads;
};

struct DecoderKeys {
  DecoderSizes sizes;
  // Default for an absent field. Unset, or for null: num_attention_heads.
  std::optional<std::int64_t> num_key_value_heads = std::nullopt;
  // Default: hidden_size / num_attention_heads.
  std::optional<std::int64_t> head_dim = std::nullopt;
  bool heads_divide_hidden_size = false;  // required even with head_dim
  std::int64_t max_position_embeddings = 2048;
  const char* norm_eps = "rms_norm_eps";
  double default_norm_eps = 1e-6;
  const char* activation = "hidden_act";
  const char* default_activation = "silu";
  std::optional<std::int64_t> pad_token_id = std::nullopt;
  bool tie_word_embeddings = false;
};

// Reads transformers' name of an activation. Default: `usual`. Throws Error(kInput) for an unknown
// name.
Activation read_activation(const ConfigReader& config, const std::string& key,
                           const std::string& usual);

// Reads all fields except windows and ropes. Throws Error(kInput) that names the field.
DecoderConfig read_decoder_config(const ConfigReader& config, const DecoderKeys& keys);

// Returns whether each block has a sliding window, or an empty list without layer_types. Throws
// Error(kInput) for other types or counts.
std::vector<bool> read_layer_types(const ConfigReader& config, std::int64_t num_layers);

// Returns nothing if sliding_window is null, and `absent` without the key.
std::optional<std::int64_t> read_window(const ConfigReader& config,
                                        std::optional<std::int64_t> absent);

// The field layer_types overrides `has_window`. Throws Error(kInput) if a listed block has no
// window size.
void set_windows(DecoderConfig& out, const ConfigReader& config, std::optional<std::int64_t> window,
                 const std::vector<bool>& has_window);

}  // namespace sluice::detail
