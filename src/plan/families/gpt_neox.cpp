// Field meanings and defaults are those of transformers' GPTNeoXConfig.
#include "plan/families/gpt_neox.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "plan/families/decoder.h"
#include "plan/families/fused.h"

namespace sluice::detail {
namespace {

double bytes_of_floats(std::int64_t count) { return 4.0 * as_double(count); }

// Elements: D hidden size, F inner size, H heads.
LayerCost block_cost(const GptNeoxConfig& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size, f = c.intermediate_size, h = c.num_attention_heads;
  LayerCost cost;
  const double weights = as_double(d) * as_double(4 * d + 2 * f);
  cost.forward_flops = {.per_token = 2 * weights, .per_pair = as_double(4 * d)};
  cost.input_flops = {.per_token = 2 * weights, .per_pair = as_double(8 * d)};
  cost.weight_flops = {.per_token = 2 * weights};
  // Inputs of the norms, which are one where attention and feed-forward stand side by side, and of
  // each mean and inverse root; their results; q, k, v, the result of attention and its copy by
  // rows; what the activation keeps and makes.
  const int inputs = c.parallel_residual ? 1 : 2;
  const int between = c.activation == Activation::kRelu ? 1 : 2;
  cost.casted_weights = bytes.casted_weights(weights);
  cost.after_forward = {.per_token = bytes.stored(inputs * d + 4) + bytes.operand(2 * d) +
                                     bytes.product(5 * d + between * f) + NumberBytes::wide(h) +
                                     bytes.casted_table(2 * c.rotary_dim)};
  if (c.hidden_dropout > 0) cost.after_forward.per_token += bytes.product(2 * d);
  if (c.attention_dropout > 0) {
    cost.after_forward.per_token -= NumberBytes::wide(h);
    cost.after_forward.per_pair = bytes.product(3 * h);
  }
  // The input of every matrix and the gradient of its output, and so of the norms.
  cost.after_input = {.per_token = bytes.stored((2 + inputs) * d) + bytes.operand(2 * d) +
                                   bytes.product(6 * d + 2 * f)};
  cost.on_entry = {.constant = bytes.weight_gradient(as_double(f) * as_double(d)),
                   .per_token = bytes.product(2 * f)};
  cost.in_forward.per_token = bytes.product(std::max(10 * d, 4 * d + 2 * f));
  return cost;
}

// No matrix keeps its input.
LayerCost frozen_block_cost(const GptNeoxConfig& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size, f = c.intermediate_size;
  LayerCost cost = block_cost(c, bytes);
  cost.after_forward.per_token -= bytes.operand(2 * d) + bytes.product(d);
  if (c.activation != Activation::kRelu) cost.after_forward.per_token -= bytes.product(f);
  cost.after_input = {};
  cost.on_entry.constant = 0;
  return cost;
}

// Costs of operations alone, with what the fused halves keep.
std::pair<LayerCost, LayerCost> fused_costs(const GptNeoxConfig& c, const LayerCost& plain) {
  const std::int64_t d = c.hidden_size;
  std::pair<LayerCost, LayerCost> costs;
  for (LayerCost* cost : {&costs.first, &costs.second}) {
    *cost = {.forward_flops = plain.forward_flops,
             .input_flops = plain.input_flops,
             .weight_flops = plain.weight_flops};
  }
  FusedBytes fused;
  fused.add(FusedAttention{.hidden = d,
                           .heads = c.num_attention_heads,
                           .head_dim = c.head_dim(),
                           .query_width = d,
                           .key_width = d});
  fused.add(FusedFeedForward{.hidden = d, .inner = c.intermediate_size, .is_gated = false});
  fused.add_to(costs.first, costs.second);
  if (!c.parallel_residual) return costs;
  for (LayerCost* cost : {&costs.first, &costs.second})  // both halves have one input
    cost->after_forward.per_token -= bytes_of_floats(d);
  return costs;
}

LayerInfo norm_layer(const GptNeoxConfig& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size;
  LayerInfo layer = hidden_layer("gpt_neox.final_layer_norm", LayerRole::kNorm, d);
  layer.parameters = {{layer.name + ".weight", {d}, {}}, {layer.name + ".bias", {d}, {}}};
  layer.cost.after_forward.per_token = bytes.stored(d + 2) + bytes.operand(d);
  layer.cost.after_input.per_token = bytes.stored(2 * d) + bytes.operand(d);
  layer.cost.in_forward.per_token = bytes.stored(2 * d);
  layer.frozen_cost = layer.cost;
  layer.frozen_cost->after_input = {};
  return layer;
}

}  // namespace

bool fuses(const GptNeoxConfig& c) {
  return c.head_dim() % kFusedHeadMultiple == 0 && c.attention_dropout == 0 &&
         c.hidden_dropout == 0;
}

GptNeoxConfig read_gpt_neox_config(const ConfigReader& config) {
  GptNeoxConfig out;
  out.vocab_size = config.required_size({"vocab_size"});
  out.hidden_size = config.required_size({"hidden_size"});
  out.num_layers = config.required_size({"num_hidden_layers"}, kMaxLayers);
  out.num_attention_heads = config.required_size({"num_attention_heads"});
  out.intermediate_size = config.size("intermediate_size", 24576);
  if (out.hidden_size % out.num_attention_heads != 0) {
    config.fail(
        "num_attention_heads",
        formatted("{} does not divide hidden_size = {}", out.num_attention_heads, out.hidden_size),
        "every head has as many channels");
  }
  // transformers turns a part of that many channels of heads that have others.
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
      RopeKeys{.theta = "rotary_emb_base", .turned = "rotary_pct", .usually_turned = 0.25});
  out.rotary_dim = turned_channels(config, out.rope, out.head_dim());
  return out;
}

ModelSpec read_gpt_neox(const ConfigReader& reader, const Precision& precision) {
  const NumberBytes bytes(precision);
  const GptNeoxConfig config = read_gpt_neox_config(reader);
  const std::int64_t d = config.hidden_size, f = config.intermediate_size;
  const std::string embedding = "gpt_neox.embed_in.weight";
  ModelSpec model;
  model.inputs = decoder_inputs();
  model.vocab_size = config.vocab_size;
  model.usual_positions = config.max_position_embeddings;
  model.layers.reserve(static_cast<std::size_t>(config.num_layers) + 3);
  model.layers.push_back(embedding_layer("gpt_neox.embed_in",
                                         {{embedding, {config.vocab_size, d}, {}}}, bytes,
                                         config.hidden_dropout));
  LayerCost cost = block_cost(config, bytes), frozen_cost = frozen_block_cost(config, bytes);
  if (bytes.fuses() && fuses(config)) std::tie(cost, frozen_cost) = fused_costs(config, cost);
  using Shape = std::vector<std::int64_t>;
  const auto bias = [&](std::int64_t width) {
    return config.attention_bias ? Shape{width} : Shape();
  };
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    LayerInfo layer = hidden_layer("gpt_neox.layers." + std::to_string(i), LayerRole::kBlock, d);
    layer.reads = block_reads();
    append_parameters(layer, "input_layernorm", {d}, {d});
    append_parameters(layer, "post_attention_layernorm", {d}, {d});
    append_parameters(layer, "attention.query_key_value", {3 * d, d}, bias(3 * d));
    append_parameters(layer, "attention.dense", {d, d}, bias(d));
    append_parameters(layer, "mlp.dense_h_to_4h", {f, d}, {f});
    append_parameters(layer, "mlp.dense_4h_to_h", {d, f}, {d});
    layer.cost = cost;
    layer.frozen_cost = frozen_cost;
    model.layers.push_back(std::move(layer));
  }
  model.layers.push_back(norm_layer(config, bytes));
  LayerInfo head =
      head_layer(config.vocab_size, d, config.tie_word_embeddings ? embedding : "", bytes);
  head.name = "embed_out";
  head.parameters.front().name = "embed_out.weight";
  model.layers.push_back(std::move(head));
  return model;
}

}  // namespace sluice::detail
