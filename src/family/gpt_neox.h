// GPT-NeoX and Pythia: attention and feed-forward side by side, layer norms with bias, one matrix
// of queries, keys and values in turns, part of every head turned, a head called embed_out.
//
// Owns: meaning of its config.json, names, shapes and costs of its layers.
// Does not own: modules (src/model/gpt_neox.cpp).
// Thread-safety: values.
#pragma once

#include "family/decoder_config.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct GptNeoxConfig {
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0;
  std::int64_t num_attention_heads = 0, max_position_embeddings = 0;
  std::int64_t rotary_dim = 0;  // the channels of a head that are turned
  RopeConfig rope;
  double norm_eps = 1e-5;
  double initializer_range = 0.02;
  Activation activation = Activation::kGelu;
  bool attention_bias = true;
  bool parallel_residual = true;  // the feed-forward reads what attention reads
  bool tie_word_embeddings = false;
  double attention_dropout = 0.0, hidden_dropout = 0.0;

  std::int64_t head_dim() const { return hidden_size / num_attention_heads; }
};

// True if blocks run as fused operators, as far as the model decides it: the same in a plan and in
// a run.
bool fuses(const GptNeoxConfig& config);

// Throws Error(kInput) naming the field.
GptNeoxConfig read_gpt_neox_config(const ConfigReader& config);

ModelSpec read_gpt_neox(const ConfigReader& config, const Precision& precision);

}  // namespace sluice::detail
