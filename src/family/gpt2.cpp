// Follows transformers' GPT2Config.
#include "family/gpt2.h"

#include <utility>

#include "base/format.h"
#include "family/decoder.h"

namespace sluice::detail {
namespace {

OperatorList block_operators(const Gpt2Config& c, const Precision& precision) {
  const std::int64_t d = c.hidden_size, f = c.intermediate_size, h = c.num_attention_heads;
  OperatorList operators(precision);
  const auto conv1d = [&](const char* name, std::int64_t in, std::int64_t out) {
    operators.matrix(name, in, out, /*bias=*/true, /*transposed=*/true);
  };
  operators.vector("ln_1", d, /*bias=*/true);
  conv1d("attn.c_attn", d, 3 * d);
  conv1d("attn.c_proj", d, d);
  operators.vector("ln_2", d, /*bias=*/true);
  conv1d("mlp.c_fc", d, f);
  conv1d("mlp.c_proj", f, d);
  operators.divide_outputs("attn.c_attn", h, {d, d, d}, /*transposed=*/true);
  operators.divide_inputs("attn.c_proj", h, /*transposed=*/true);
  operators.divide_outputs("mlp.c_fc", 0, {}, /*transposed=*/true);
  operators.divide_inputs("mlp.c_proj", 0, /*transposed=*/true);
  operators.attention({.norm_before = "ln_1",
                       .projections = {"attn.c_attn"},
                       .output = "attn.c_proj",
                       .norm = NormKind::kLayer,
                       .hidden = d,
                       .heads = h,
                       .head_dim = d / h,
                       .query_width = d,
                       .key_width = d,
                       .dropout = c.attention_dropout,
                       .residual_dropout = c.residual_dropout,
                       .fused = fuses_attention(c)});
  operators.feed_forward({.norm_before = "ln_2",
                          .projections = {"mlp.c_fc"},
                          .last = "mlp.c_proj",
                          .norm = NormKind::kLayer,
                          .activation = Activation::kGeluTanh,
                          .hidden = d,
                          .inner = f,
                          .gated = false,
                          .residual_dropout = c.residual_dropout,
                          .fused = fuses_feed_forward(c)});
  return operators;
}

}  // namespace

bool fuses_attention(const Gpt2Config& c) {
  return c.hidden_size / c.num_attention_heads % ops::kFusedHeadMultiple == 0 &&
         c.attention_dropout == 0 && c.residual_dropout == 0;
}

bool fuses_feed_forward(const Gpt2Config& c) { return c.residual_dropout == 0; }

Gpt2Config read_gpt2_config(const ConfigReader& config) {
  Gpt2Config out;
  out.vocab_size = config.size_of({"vocab_size"}, 50257);
  out.hidden_size = config.size_of({"n_embd", "hidden_size"}, 768);
  out.num_layers = config.size_of({"n_layer", "num_hidden_layers"}, 12, kMaxLayers);
  out.num_attention_heads = config.size_of({"n_head", "num_attention_heads"}, 12);
  out.num_positions = config.size_of({"n_positions", "max_position_embeddings"}, 1024);
  if (out.hidden_size % out.num_attention_heads != 0) {
    config.fail(
        "n_head",
        formatted("{} does not divide n_embd = {}", out.num_attention_heads, out.hidden_size),
        "write a divisor: all heads have equally many channels");
  }
  out.intermediate_size = config.size("n_inner", 4 * out.hidden_size, 4 * kMaxDimension);
  out.norm_eps = config.number("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  out.initializer_range = config.number("initializer_range", 0.02, 0.0, 1.0);
  const std::string activation = config.text("activation_function", "gelu_new");
  if (activation != "gelu_new") {
    config.fail("activation_function", "'" + activation + "' is not implemented",
                "only 'gelu_new' is");
  }
  out.embedding_dropout = config.number("embd_pdrop", 0.1, 0.0, 1.0);
  out.attention_dropout = config.number("attn_pdrop", 0.1, 0.0, 1.0);
  out.residual_dropout = config.number("resid_pdrop", 0.1, 0.0, 1.0);
  out.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  config.require_flag("scale_attn_weights", true, true);
  config.require_flag("scale_attn_by_inverse_layer_idx", false, false);
  config.require_flag("reorder_and_upcast_attn", false, false);
  config.require_flag("add_cross_attention", false, false);
  return out;
}

ModelSpec read_gpt2(const ConfigReader& reader, const Precision& precision) {
  const Gpt2Config config = read_gpt2_config(reader);
  const std::int64_t d = config.hidden_size;
  ModelSpec model;
  model.inputs = decoder_inputs();
  model.vocab_size = config.vocab_size;
  model.max_positions = config.num_positions;
  model.layers.reserve(static_cast<std::size_t>(config.num_layers) + 3);
  LayerInfo embedding =
      embedding_layer("transformer.wte", config.vocab_size, d, precision, config.embedding_dropout,
                      /*scaled=*/false, config.num_positions);
  embedding.parameters.push_back({"transformer.wpe.weight", {config.num_positions, d}, {}});
  embedding.reads.emplace_back("position_ids");
  embedding.modules = {"transformer.wte", "transformer.wpe"};
  model.layers.push_back(std::move(embedding));
  const OperatorList block = block_operators(config, precision);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    model.layers.push_back(
        hidden_layer("transformer.h." + std::to_string(i), LayerRole::kBlock, d));
    block.give(model.layers.back());
  }
  model.layers.push_back(norm_layer("transformer.ln_f", NormKind::kLayer, d, precision));
  model.layers.push_back(head_layer("lm_head", config.vocab_size, d,
                                    config.tie_word_embeddings ? "transformer.wte.weight" : "",
                                    precision));
  return model;
}

}  // namespace sluice::detail
