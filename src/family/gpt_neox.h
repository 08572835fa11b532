// GPT-NeoX and Pythia: parallel attention and feed-forward, layer norms with bias, one matrix with
// q, k, v by head, partial rotation.
#pragma once

#include "family/decoder_config.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct GptNeoxConfig {
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0;
  std::int64_t num_attention_heads = 0, max_position_embeddings = 0;
  std::int64_t rotary_dim = 0;  // rotated channels per head
  RopeConfig rope;
  double norm_eps = 1e-5;
  double initializer_range = 0.02;
  Activation activation = Activation::kGelu;
  bool attention_bias = true;
  bool parallel_residual = true;  // feed-forward reads the block's input
  bool tie_word_embeddings = false;
  double attention_dropout = 0.0, hidden_dropout = 0.0;

  std::int64_t head_dim() const { return hidden_size / num_attention_heads; }
};

bool fuses(const GptNeoxConfig& config);

GptNeoxConfig read_gpt_neox_config(const ConfigReader& config);

ModelSpec read_gpt_neox(const ConfigReader& config, const Precision& precision);

}  // namespace sluice::detail
