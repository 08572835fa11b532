// Field meanings and defaults are those of transformers' LlamaConfig.
#include "plan/families/llama.h"

#include <algorithm>
#include <cmath>

#include "plan/families/decoder.h"

namespace sluice::detail {
namespace {

// pad_token_id is the padding_idx of transformers' embedding: negative counts from the end.
std::int64_t read_padding_row(const ConfigReader& config, std::int64_t vocab_size) {
  const std::optional<double> id = config.number("pad_token_id");
  if (!id) return -1;
  const double size = static_cast<double>(vocab_size);
  if (*id != std::floor(*id) || *id < -size || *id >= size) {
    config.fail("pad_token_id",
                "pad_token_id is no token of the vocabulary of " + std::to_string(vocab_size),
                "write one of its numbers, or null");
  }
  const auto row = static_cast<std::int64_t>(*id);
  return row < 0 ? row + vocab_size : row;
}

void append_linear(LayerInfo& layer, const std::string& name, std::int64_t out, std::int64_t in,
                   bool bias) {
  append_parameters(layer, name, {out, in},
                    bias ? std::vector<std::int64_t>{out} : std::vector<std::int64_t>{});
}

// x in float32, normalized, one inverse root; the result is the operand of what follows.
double norm_bytes(std::int64_t d, const NumberBytes& bytes) {
  return NumberBytes::wide(d + 1) + bytes.stored(d);
}

// Elements: D hidden size, F inner size, Q and K widths of all query and key heads, H query heads.
LayerCost block_cost(const LlamaConfig& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size, f = c.intermediate_size, h = c.num_attention_heads;
  const std::int64_t q = c.query_width(), k = c.key_value_width();
  LayerCost cost;
  const double weights = static_cast<double>(2 * d) * static_cast<double>(q + k) +
                         static_cast<double>(3 * d) * static_cast<double>(f);
  cost.forward_flops = {.per_token = 2 * weights, .per_pair = static_cast<double>(4 * q)};
  cost.input_flops = {.per_token = 2 * weights, .per_pair = static_cast<double>(8 * q)};
  cost.weight_flops = {.per_token = 2 * weights};
  // Two norms (x in float32, normalized and result; one inverse root), q, k, v, the result of
  // attention and its copy by rows, one log-sum a head; gate, its activation, up, and their
  // product. Sines and cosines in another type count as if every row had its own.
  cost.after_forward.per_token = 2 * norm_bytes(d, bytes) + bytes.operand(d, 3) +
                                 bytes.operand(d, 2) + bytes.product(3 * q + 2 * k + 4 * f) +
                                 NumberBytes::wide(h) + bytes.casted_table(2 * c.head_dim);
  cost.after_forward.constant = bytes.casted_weights(weights);
  // With dropout the probabilities of attention are made: before and after it, and its mask; and
  // every query head gets keys and values of its own.
  if (c.attention_dropout > 0) {
    cost.after_forward.per_token += bytes.product(2 * (q - k) - q) - NumberBytes::wide(h);
    cost.after_forward.per_pair = bytes.product(3 * h);
  }
  // Of every matrix its input and the gradient of its output; of every norm the same.
  cost.after_input = {.constant = bytes.casted_weights(weights),
                      .per_token = bytes.stored(4 * d) + bytes.operand(d, 3) + bytes.operand(d, 2) +
                                   bytes.product(2 * d + 2 * q + 2 * k + 3 * f)};
  cost.on_entry = {
      .constant = bytes.weight_gradient(static_cast<double>(f) * static_cast<double>(d)),
      .per_token = bytes.product(2 * f)};
  // The end of the gated MLP, or of attention.
  cost.in_forward.per_token = bytes.product(std::max(4 * d + 3 * f, 2 * d + 4 * q + 3 * k));
  return cost;
}

// No matrix keeps its input, no norm its normalized input.
LayerCost frozen_block_cost(const LlamaConfig& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size, f = c.intermediate_size, h = c.num_attention_heads;
  const std::int64_t q = c.query_width(), k = c.key_value_width();
  LayerCost cost = block_cost(c, bytes);
  cost.after_forward.per_token = NumberBytes::wide(2 * d + h + 2) +
                                 bytes.product(2 * q + 2 * k + 3 * f) +
                                 bytes.casted_table(2 * c.head_dim);
  if (c.attention_dropout > 0)
    cost.after_forward.per_token += bytes.product(2 * (q - k) - q) - NumberBytes::wide(h);
  cost.after_input = {};
  cost.on_entry.constant = 0;
  return cost;
}

LayerInfo norm_layer(const LlamaConfig& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size;
  LayerInfo layer = hidden_layer("model.norm", LayerRole::kNorm, d);
  layer.parameters = {{"model.norm.weight", {d}, {}}};
  layer.cost.after_forward.per_token = norm_bytes(d, bytes) + bytes.operand(d);
  layer.cost.after_input.per_token = bytes.stored(2 * d) + bytes.operand(d);
  layer.cost.in_forward.per_token = NumberBytes::wide(2 * d) + bytes.stored(d);
  layer.frozen_cost = layer.cost;
  layer.frozen_cost->after_forward.per_token = NumberBytes::wide(d + 1) + bytes.operand(d);
  layer.frozen_cost->after_input = {};
  return layer;
}

}  // namespace

LlamaConfig read_llama_config(const ConfigReader& config) {
  LlamaConfig out;
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
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    config.fail("hidden_act", "'" + activation + "' is not implemented", "only 'silu' is");
  }
  out.qkv_bias = out.output_bias = config.flag("attention_bias", false);
  out.mlp_bias = config.flag("mlp_bias", false);
  out.tie_word_embeddings = config.flag("tie_word_embeddings", false);
  out.attention_dropout = config.number("attention_dropout", 0.0, 0.0, 1.0);
  out.rope = read_rope(config, out.max_position_embeddings);
  return out;
}

ModelSpec llama_model(const LlamaConfig& config, const Precision& precision) {
  const NumberBytes bytes(precision);
  const std::int64_t d = config.hidden_size, f = config.intermediate_size;
  const std::int64_t q = config.query_width(), kv = config.key_value_width();
  const std::string embedding = "model.embed_tokens.weight";
  ModelSpec model;
  model.inputs = decoder_inputs();
  model.vocab_size = config.vocab_size;
  model.usual_positions = config.max_position_embeddings;
  model.layers.reserve(static_cast<std::size_t>(config.num_layers) + 3);
  model.layers.push_back(
      embedding_layer("model.embed_tokens", {{embedding, {config.vocab_size, d}, {}}}, bytes));
  const LayerCost cost = block_cost(config, bytes), frozen_cost = frozen_block_cost(config, bytes);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    LayerInfo layer = hidden_layer("model.layers." + std::to_string(i), LayerRole::kBlock, d);
    append_linear(layer, "self_attn.q_proj", q, d, config.qkv_bias);
    append_linear(layer, "self_attn.k_proj", kv, d, config.qkv_bias);
    append_linear(layer, "self_attn.v_proj", kv, d, config.qkv_bias);
    append_linear(layer, "self_attn.o_proj", d, q, config.output_bias);
    append_linear(layer, "mlp.gate_proj", f, d, config.mlp_bias);
    append_linear(layer, "mlp.up_proj", f, d, config.mlp_bias);
    append_linear(layer, "mlp.down_proj", d, f, config.mlp_bias);
    append_parameters(layer, "input_layernorm", {d});
    append_parameters(layer, "post_attention_layernorm", {d});
    layer.cost = cost;
    layer.frozen_cost = frozen_cost;
    model.layers.push_back(std::move(layer));
  }
  model.layers.push_back(norm_layer(config, bytes));
  model.layers.push_back(
      head_layer(config.vocab_size, d, config.tie_word_embeddings ? embedding : "", bytes));
  return model;
}

ModelSpec read_llama(const ConfigReader& config, const Precision& precision) {
  return llama_model(read_llama_config(config), precision);
}

}  // namespace sluice::detail
