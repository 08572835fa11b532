// GPT-2: learned positions, layer norms with bias, Conv1D weights stored as [in, out], a tied head.
// Field meanings and defaults are those of transformers' GPT2Config.
#include "plan/model_spec/families.h"

namespace sluice::detail {
namespace {

void append(LayerInfo& layer, const std::string& name, std::vector<std::int64_t> weight,
            std::int64_t bias) {
  layer.parameters.push_back({layer.name + "." + name + ".weight", std::move(weight), {}});
  layer.parameters.push_back({layer.name + "." + name + ".bias", {bias}, {}});
}

}  // namespace

DecoderConfig read_gpt2(const ConfigReader& config) {
  DecoderConfig out;
  out.vocab_size = config.required_size({"vocab_size"});
  out.hidden_size = config.required_size({"n_embd", "hidden_size"});
  out.num_layers = config.required_size({"n_layer", "num_hidden_layers"}, kMaxLayers);
  out.num_attention_heads = config.required_size({"n_head", "num_attention_heads"});
  out.num_key_value_heads = out.num_attention_heads;
  out.max_position_embeddings = config.required_size({"n_positions", "max_position_embeddings"});
  if (out.hidden_size % out.num_attention_heads != 0) {
    config.fail("n_head",
                std::to_string(out.num_attention_heads) +
                    " does not divide n_embd = " + std::to_string(out.hidden_size),
                "every head has as many channels");
  }
  out.head_dim = out.hidden_size / out.num_attention_heads;
  out.intermediate_size = config.size("n_inner", 4 * out.hidden_size, 4 * kMaxDimension);
  out.norm_eps = config.number("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  out.initializer_range = config.number("initializer_range", 0.02, 0.0, 1.0);
  out.hidden_act = config.text("activation_function", "gelu_new");
  if (out.hidden_act != "gelu_new") {
    config.fail("activation_function", "'" + out.hidden_act + "' is not implemented",
                "only 'gelu_new' is");
  }
  out.embedding_dropout = config.number("embd_pdrop", 0.1, 0.0, 1.0);
  out.attention_dropout = config.number("attn_pdrop", 0.1, 0.0, 1.0);
  out.residual_dropout = config.number("resid_pdrop", 0.1, 0.0, 1.0);
  out.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  out.attention_bias = out.mlp_bias = true;
  out.rope_type = "none";
  config.require_flag("scale_attn_weights", true, true);
  config.require_flag("scale_attn_by_inverse_layer_idx", false, false);
  config.require_flag("reorder_and_upcast_attn", false, false);
  config.require_flag("add_cross_attention", false, false);
  return out;
}

std::vector<LayerInfo> gpt2_layers(const DecoderConfig& config) {
  const std::int64_t d = config.hidden_size;
  std::vector<LayerInfo> layers;
  layers.reserve(static_cast<std::size_t>(config.num_layers) + 3);
  const std::string embedding = "transformer.wte.weight";
  layers.push_back({"transformer.wte",
                    LayerKind::kEmbedding,
                    {{embedding, {config.vocab_size, d}, {}},
                     {"transformer.wpe.weight", {config.max_position_embeddings, d}, {}}},
                    {"transformer.wte", "transformer.wpe"}});
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    LayerInfo layer;
    layer.name = "transformer.h." + std::to_string(i);
    append(layer, "ln_1", {d}, d);
    append(layer, "attn.c_attn", {d, 3 * d}, 3 * d);
    append(layer, "attn.c_proj", {d, d}, d);
    append(layer, "ln_2", {d}, d);
    append(layer, "mlp.c_fc", {d, config.intermediate_size}, config.intermediate_size);
    append(layer, "mlp.c_proj", {config.intermediate_size, d}, d);
    layers.push_back(std::move(layer));
  }
  layers.push_back({"transformer.ln_f",
                    LayerKind::kNorm,
                    {{"transformer.ln_f.weight", {d}, {}}, {"transformer.ln_f.bias", {d}, {}}},
                    {}});
  layers.push_back(head_layer(config, embedding));
  return layers;
}

}  // namespace sluice::detail
