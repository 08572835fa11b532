// Llama: RMS norms, rotary positions, grouped-query attention, gated MLP.
//
// Owns: meaning of its config.json, names, shapes and costs of its layers, also for families that
// differ in their settings only.
// Does not own: modules (src/model/llama.cpp).
// Thread-safety: values.
#pragma once

#include "plan/families/rope.h"
#include "sluice/model_spec.h"
#include "sluice/parts/precision.h"

namespace sluice::detail {

struct LlamaConfig {
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  std::int64_t max_position_embeddings = 0;  // of the rope types that ask; no limit
  // The row of the embedding that takes no gradient and starts as zeros; -1: none.
  std::int64_t padding_row = -1;
  double norm_eps = 1e-6;
  double initializer_range = 0.02;
  // Biases of q, k, v; of the attention's output; of gate, up, down.
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool tie_word_embeddings = false;
  double attention_dropout = 0.0;
  RopeConfig rope;

  std::int64_t query_width() const { return num_attention_heads * head_dim; }
  std::int64_t key_value_width() const { return num_key_value_heads * head_dim; }
};

// Throws Error(kInput) naming the field.
LlamaConfig read_llama_config(const ConfigReader& config);
ModelSpec llama_model(const LlamaConfig& config, const Precision& precision);

ModelSpec read_llama(const ConfigReader& config, const Precision& precision);

}  // namespace sluice::detail
