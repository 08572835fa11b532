// GPT-2: learned positions, layer norms with bias, Conv1D weights stored as [in, out], a tied head.
#pragma once

#include "family/config_reader.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct Gpt2Config {
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0;
  std::int64_t num_attention_heads = 0, num_positions = 0;
  double norm_eps = 1e-5;
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;
  double embedding_dropout = 0.0, attention_dropout = 0.0, residual_dropout = 0.0;
};

bool fuses_attention(const Gpt2Config& config);
bool fuses_feed_forward(const Gpt2Config& config);

Gpt2Config read_gpt2_config(const ConfigReader& config);

ModelSpec read_gpt2(const ConfigReader& config, const Precision& precision);

}  // namespace sluice::detail
