// Llama: RMS norms, rotary positions, grouped-query attention, gated MLP.
// Field meanings and defaults are those of transformers' LlamaConfig; rope_scaling / rope_theta
// (old) and rope_parameters (new) mean the same.
#include <cmath>

#include "plan/model_spec/families.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// Without a type only what the default type uses may be set: the rest would do nothing.
void require_used(const ConfigReader& rope) {
  for (const std::string& key : rope.keys()) {
    if (rope.is_object(key)) {
      rope.fail(key, "rotary settings by layer type are not implemented",
                "use a model whose layers all have the same");
    }
    const bool used = key == "rope_theta" || key == "partial_rotary_factor";
    if (used || rope.has("rope_type") || rope.has("type")) continue;
    rope.fail(key, "is set, but no rope_type says what it is for",
              "add rope_type: \"linear\" or \"llama3\", or leave it out");
  }
}

void read_rope(const ConfigReader& config, DecoderConfig& out) {
  // transformers prefers rope_scaling where both are given.
  std::optional<ConfigReader> rope = config.object("rope_scaling");
  if (!rope) rope = config.object("rope_parameters");
  constexpr double kMinTheta = 1e-3, kMaxTheta = 1e15;
  out.rope_theta = config.number("rope_theta", 10000.0, kMinTheta, kMaxTheta);
  if (config.number("partial_rotary_factor").value_or(1.0) != 1.0) {
    config.fail("partial_rotary_factor", "only 1 is implemented", "use a model that turns all");
  }
  if (!rope) return;
  require_used(*rope);
  out.rope_theta = rope->number("rope_theta", out.rope_theta, kMinTheta, kMaxTheta);
  out.rope_type = rope->text("rope_type", rope->text("type", "default"));
  if (rope->number("partial_rotary_factor").value_or(1.0) != 1.0) {
    rope->fail("partial_rotary_factor", "only 1 is implemented", "use a model that turns all");
  }
  if (out.rope_type == "default") return;
  const std::vector<std::string> known = {"default", "linear", "llama3"};
  if (out.rope_type != "linear" && out.rope_type != "llama3") {
    rope->fail(rope->has("rope_type") ? "rope_type" : "type",
               "rotary embedding '" + out.rope_type + "' is not implemented",
               suggest_name(out.rope_type, known));
  }
  const auto required = [&](const char* key) {
    if (!rope->has(key)) {
      rope->fail(key, "is missing", "rope type '" + out.rope_type + "' needs it: add a number");
    }
    return rope->number(key, 0.0, 1e-6, 1e9);
  };
  out.rope_factor = required("factor");
  if (out.rope_type == "linear") return;
  out.rope_low_freq_factor = required("low_freq_factor");
  out.rope_high_freq_factor = required("high_freq_factor");
  if (out.rope_high_freq_factor <= out.rope_low_freq_factor) {
    rope->fail("high_freq_factor", "is not greater than low_freq_factor", "exchange the two?");
  }
  out.rope_original_max_position_embeddings =
      rope->size("original_max_position_embeddings", out.max_position_embeddings);
  out.rope_original_max_position_embeddings =
      config.size("original_max_position_embeddings", out.rope_original_max_position_embeddings);
}

// pad_token_id is the padding_idx of transformers' embedding: negative counts from the end.
std::int64_t read_padding_row(const ConfigReader& config, std::int64_t vocab_size) {
  const std::optional<double> id = config.number("pad_token_id");
  if (!id) return -1;
  const double size = static_cast<double>(vocab_size);
  if (*id != std::floor(*id) || *id < -size || *id >= size) {
    config.fail("pad_token_id", "is no token of the vocabulary of " + std::to_string(vocab_size),
                "write one of its numbers, or null");
  }
  const auto row = static_cast<std::int64_t>(*id);
  return row < 0 ? row + vocab_size : row;
}

void append_linear(LayerInfo& layer, const std::string& name, std::int64_t out, std::int64_t in,
                   bool bias) {
  layer.parameters.push_back({layer.name + "." + name + ".weight", {out, in}, {}});
  if (bias) layer.parameters.push_back({layer.name + "." + name + ".bias", {out}, {}});
}

void append_norm(LayerInfo& layer, const std::string& name, std::int64_t size) {
  layer.parameters.push_back({layer.name + "." + name + ".weight", {size}, {}});
}

}  // namespace

DecoderConfig read_llama(const ConfigReader& config) {
  DecoderConfig out;
  out.vocab_size = config.required_size({"vocab_size"});
  out.hidden_size = config.required_size({"hidden_size"});
  out.intermediate_size = config.required_size({"intermediate_size"});
  out.num_layers = config.required_size({"num_hidden_layers"}, kMaxLayers);
  out.num_attention_heads = config.required_size({"num_attention_heads"});
  out.num_key_value_heads = config.size("num_key_value_heads", out.num_attention_heads);
  if (out.num_attention_heads % out.num_key_value_heads != 0) {
    config.fail(
        "num_key_value_heads",
        std::to_string(out.num_key_value_heads) +
            " does not divide num_attention_heads = " + std::to_string(out.num_attention_heads),
        "every key and value head serves as many query heads");
  }
  if (out.hidden_size % out.num_attention_heads != 0) {
    config.fail("num_attention_heads",
                std::to_string(out.num_attention_heads) +
                    " does not divide hidden_size = " + std::to_string(out.hidden_size),
                "every head has as many channels");
  }
  out.head_dim = config.size("head_dim", out.hidden_size / out.num_attention_heads);
  if (out.head_dim % 2 != 0) {
    config.fail("head_dim", std::to_string(out.head_dim) + " is odd",
                "rotary embedding turns pairs: write an even number");
  }
  if (out.num_attention_heads * out.head_dim > kMaxDimension) {
    config.fail("head_dim",
                "num_attention_heads * head_dim is more than " + std::to_string(kMaxDimension),
                "check both");
  }
  out.max_position_embeddings = config.size("max_position_embeddings", 2048);
  out.padding_row = read_padding_row(config, out.vocab_size);
  out.norm_eps = config.number("rms_norm_eps", 1e-6, 0.0, 1.0);
  out.initializer_range = config.number("initializer_range", 0.02, 0.0, 1.0);
  out.hidden_act = config.text("hidden_act", "silu");
  if (out.hidden_act == "swish") out.hidden_act = "silu";
  if (out.hidden_act != "silu") {
    config.fail("hidden_act", "'" + out.hidden_act + "' is not implemented", "only 'silu' is");
  }
  out.attention_bias = config.flag("attention_bias", false);
  out.mlp_bias = config.flag("mlp_bias", false);
  out.tie_word_embeddings = config.flag("tie_word_embeddings", false);
  out.attention_dropout = config.number("attention_dropout", 0.0, 0.0, 1.0);
  read_rope(config, out);
  return out;
}

std::vector<LayerInfo> llama_layers(const DecoderConfig& config) {
  const std::int64_t d = config.hidden_size;
  const std::int64_t q = config.num_attention_heads * config.head_dim;
  const std::int64_t kv = config.num_key_value_heads * config.head_dim;
  const std::string embedding = "model.embed_tokens.weight";
  std::vector<LayerInfo> layers;
  layers.reserve(static_cast<std::size_t>(config.num_layers) + 3);
  layers.push_back(
      {"model.embed_tokens", LayerKind::kEmbedding, {{embedding, {config.vocab_size, d}, {}}}, {}});
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    LayerInfo layer;
    layer.name = "model.layers." + std::to_string(i);
    append_linear(layer, "self_attn.q_proj", q, d, config.attention_bias);
    append_linear(layer, "self_attn.k_proj", kv, d, config.attention_bias);
    append_linear(layer, "self_attn.v_proj", kv, d, config.attention_bias);
    append_linear(layer, "self_attn.o_proj", d, q, config.attention_bias);
    append_linear(layer, "mlp.gate_proj", config.intermediate_size, d, config.mlp_bias);
    append_linear(layer, "mlp.up_proj", config.intermediate_size, d, config.mlp_bias);
    append_linear(layer, "mlp.down_proj", d, config.intermediate_size, config.mlp_bias);
    append_norm(layer, "input_layernorm", d);
    append_norm(layer, "post_attention_layernorm", d);
    layers.push_back(std::move(layer));
  }
  layers.push_back({"model.norm", LayerKind::kNorm, {{"model.norm.weight", {d}, {}}}, {}});
  layers.push_back(head_layer(config, embedding));
  return layers;
}

}  // namespace sluice::detail
