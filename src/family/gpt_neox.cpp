// Follows transformers' GPTNeoXConfig.
#include "family/gpt_neox.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "family/decoder.h"

namespace sluice::detail {
namespace {

OperatorList block_operators(const GptNeoxConfig& c, const Precision& precision) {
  const std::int64_t d = c.hidden_size, f = c.intermediate_size;
  OperatorList operators(precision);
  operators.vector("input_layernorm", d, /*bias=*/true);
  operators.vector("post_attention_layernorm", d, /*bias=*/true);
  operators.matrix("attention.query_key_value", 3 * d, d, c.attention_bias);
  operators.matrix("attention.dense", d, d, c.attention_bias);
  operators.matrix("mlp.dense_h_to_4h", f, d, /*bias=*/true);
  operators.matrix("mlp.dense_4h_to_h", d, f, /*bias=*/true);
  // Output rows are ordered by head: q, k, v of the first head, then of the next.
  operators.divide_outputs("attention.query_key_value", c.num_attention_heads);
  operators.divide_inputs("attention.dense", c.num_attention_heads);
  operators.divide_outputs("mlp.dense_h_to_4h");
  operators.divide_inputs("mlp.dense_4h_to_h");
  operators.attention({.norm_before = "input_layernorm",
                       .projections = {"attention.query_key_value"},
                       .output = "attention.dense",
                       .norm = NormKind::kLayer,
                       .hidden = d,
                       .heads = c.num_attention_heads,
                       .head_dim = c.head_dim(),
                       .query_width = d,
                       .key_width = d,
                       .rotary_dim = c.rotary_dim,
                       .copies_values = true,
                       .dropout = c.attention_dropout,
                       .residual_dropout = c.hidden_dropout,
                       .fused = fuses(c)});
  operators.feed_forward({.norm_before = "post_attention_layernorm",
                          .projections = {"mlp.dense_h_to_4h"},
                          .last = "mlp.dense_4h_to_h",
                          .reads = c.parallel_residual ? "x" : "h",
                          .norm = NormKind::kLayer,
                          .activation = c.activation,
                          .hidden = d,
                          .inner = f,
                          .gated = false,
                          .residual_dropout = c.hidden_dropout,
                          .fused = fuses(c)});
  return operators;
}

}  // namespace

bool fuses(const GptNeoxConfig& c) {
  return c.head_dim() % ops::kFusedHeadMultiple == 0 && c.attention_dropout == 0 &&
         c.hidden_dropout == 0;
}

GptNeoxConfig read_gpt_neox_config(const ConfigReader& config) {
  GptNeoxConfig out;
  out.vocab_size = config.size_of({"vocab_size"}, 50432);
  out.hidden_size = config.size_of({"hidden_size"}, 6144);
  out.num_layers = config.size_of({"num_hidden_layers"}, 44, kMaxLayers);
  out.num_attention_heads = config.size_of({"num_attention_heads"}, 64);
  out.intermediate_size = config.size("intermediate_size", 24576);
  if (out.hidden_size % out.num_attention_heads != 0) {
    config.fail(
        "num_attention_heads",
        formatted("{} does not divide hidden_size = {}", out.num_attention_heads, out.hidden_size),
        "write a divisor: all heads have equally many channels");
  }
  // transformers uses a different head_dim only for the rotation.
  if (config.size("head_dim", out.head_dim()) != out.head_dim())
    config.fail("head_dim", "it is not hidden_size / num_attention_heads", "leave it out");
  out.max_position_embeddings = config.size("max_position_embeddings", 2048);
  out.norm_eps = config.number("layer_norm_eps", 1e-5, 0.0, 1.0);
  out.initializer_range = config.number("initializer_range", 0.02, 0.0, 1.0);
  out.activation = read_activation(config, "hidden_act", "gelu");
  out.attention_bias = config.flag("attention_bias", true);
  out.parallel_residual = config.flag("use_parallel_residual", true);
  out.tie_word_embeddings = config.flag("tie_word_embeddings", false);
  out.attention_dropout = config.number("attention_dropout", 0.0, 0.0, 1.0);
  out.hidden_dropout = config.number("hidden_dropout", 0.0, 0.0, 1.0);
  out.rope = read_rope(
      config, out.max_position_embeddings,
      RopeKeys{
          .theta = "rotary_emb_base", .turned = "rotary_pct", .default_rotated_fraction = 0.25});
  out.rotary_dim = turned_channels(config, out.rope, out.head_dim());
  return out;
}

ModelSpec read_gpt_neox(const ConfigReader& reader, const Precision& precision) {
  const GptNeoxConfig config = read_gpt_neox_config(reader);
  const std::int64_t d = config.hidden_size;
  ModelSpec model;
  model.inputs = decoder_inputs();
  model.vocab_size = config.vocab_size;
  model.usual_positions = config.max_position_embeddings;
  model.layers.reserve(static_cast<std::size_t>(config.num_layers) + 3);
  model.layers.push_back(
      embedding_layer("gpt_neox.embed_in", config.vocab_size, d, precision, config.hidden_dropout));
  const OperatorList block = block_operators(config, precision);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    model.layers.push_back(
        hidden_layer("gpt_neox.layers." + std::to_string(i), LayerRole::kBlock, d));
    block.give(model.layers.back());
  }
  model.layers.push_back(norm_layer("gpt_neox.final_layer_norm", NormKind::kLayer, d, precision));
  model.layers.push_back(head_layer("embed_out", config.vocab_size, d,
                                    config.tie_word_embeddings ? "gpt_neox.embed_in.weight" : "",
                                    precision));
  return model;
}

}  // namespace sluice::detail
