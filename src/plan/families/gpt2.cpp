// Field meanings and defaults are those of transformers' GPT2Config.
#include "plan/families/gpt2.h"

#include <utility>

#include "base/format.h"
#include "plan/families/decoder.h"
#include "plan/families/fused.h"

namespace sluice::detail {
namespace {

// x, mean and inverse root: the normalized x is computed again; the result is the operand of what
// follows.
double norm_bytes(std::int64_t d, const NumberBytes& bytes) { return bytes.stored(d + 2); }

// Elements: D hidden size, F inner size, H heads.
LayerCost attention_cost(const Gpt2Config& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size, h = c.num_attention_heads;
  LayerCost cost;
  const double weights = static_cast<double>(d) * static_cast<double>(4 * d);
  cost.forward_flops = {.per_token = 2 * weights, .per_pair = static_cast<double>(4 * d)};
  cost.input_flops = {.per_token = 2 * weights, .per_pair = static_cast<double>(8 * d)};
  cost.weight_flops = {.per_token = 2 * weights};
  cost.casted_weights = bytes.casted_weights(weights);
  cost.after_forward = {.per_token = norm_bytes(d, bytes) + bytes.operand(d) +
                                     bytes.product(4 * d) + NumberBytes::wide(h)};
  if (c.residual_dropout > 0) cost.after_forward.per_token += bytes.product(d);
  if (c.attention_dropout > 0) {
    cost.after_forward.per_token -= NumberBytes::wide(h);
    cost.after_forward.per_pair = bytes.product(3 * h);
  }
  cost.after_input = {.per_token = bytes.product(6 * d)};
  cost.in_forward.per_token = bytes.product(4 * d);
  return cost;
}

LayerCost feed_forward_cost(const Gpt2Config& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size, f = c.intermediate_size;
  LayerCost cost;
  const double weights = static_cast<double>(d) * static_cast<double>(2 * f);
  cost.forward_flops.per_token = cost.input_flops.per_token = cost.weight_flops.per_token =
      2 * weights;
  cost.casted_weights = bytes.casted_weights(weights);
  cost.after_forward = {.per_token =
                            norm_bytes(d, bytes) + bytes.operand(d) + bytes.product(2 * f)};
  if (c.residual_dropout > 0) cost.after_forward.per_token += bytes.product(d);
  cost.after_input = {.per_token = bytes.product(2 * d + 2 * f)};
  cost.on_entry = {
      .constant = bytes.weight_gradient(static_cast<double>(f) * static_cast<double>(d)),
      .per_token = bytes.product(2 * f)};
  cost.in_forward.per_token = bytes.product(4 * d + 2 * f);
  return cost;
}

// Cost with nothing trained: no matrix keeps its input, which is `inputs` numbers a token.
LayerCost frozen(LayerCost cost, double inputs) {
  cost.after_forward.per_token -= inputs;
  cost.after_input = {};
  cost.on_entry.constant = 0;
  return cost;
}

// Costs of a block, trained and frozen.
std::pair<LayerCost, LayerCost> block_costs(const Gpt2Config& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size, h = c.num_attention_heads, f = c.intermediate_size;
  LayerCost attends = attention_cost(c, bytes), feeds = feed_forward_cost(c, bytes);
  const double result = c.attention_dropout > 0 ? bytes.product(d) : 0.0;
  LayerCost frozen_attends = frozen(attends, bytes.operand(d) + result);
  LayerCost frozen_feeds = frozen(feeds, bytes.operand(d) + bytes.product(f));
  FusedBytes fused;
  if (bytes.fuses() && fuses_attention(c)) {
    fused.add(FusedAttention{
        .hidden = d, .heads = h, .head_dim = d / h, .query_width = d, .key_width = d});
    keep_operations_alone(attends);
    keep_operations_alone(frozen_attends);
  }
  if (bytes.fuses() && fuses_feed_forward(c)) {
    fused.add(FusedFeedForward{.hidden = d, .inner = f, .is_gated = false});
    keep_operations_alone(feeds);
    keep_operations_alone(frozen_feeds);
    if (!fuses_attention(c)) {
      attends.on_entry = frozen_attends.on_entry =
          entry_of_plain_attention(4 * d, h, c.attention_dropout > 0, bytes);
    }
  }
  std::pair<LayerCost, LayerCost> costs{one_after_other(attends, feeds),
                                        one_after_other(frozen_attends, frozen_feeds)};
  fused.add_to(costs.first, costs.second);
  return costs;
}

LayerInfo norm_layer(const Gpt2Config& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size;
  LayerInfo layer = hidden_layer("transformer.ln_f", LayerRole::kNorm, d);
  layer.parameters = {{"transformer.ln_f.weight", {d}, {}}, {"transformer.ln_f.bias", {d}, {}}};
  layer.cost.after_forward.per_token = norm_bytes(d, bytes) + bytes.operand(d);
  layer.cost.after_input.per_token = bytes.stored(2 * d) + bytes.operand(d);
  layer.cost.in_forward.per_token = bytes.stored(2 * d);
  layer.frozen_cost = layer.cost;
  layer.frozen_cost->after_input = {};
  return layer;
}

}  // namespace

bool fuses_attention(const Gpt2Config& c) {
  return c.hidden_size / c.num_attention_heads % kFusedHeadMultiple == 0 &&
         c.attention_dropout == 0 && c.residual_dropout == 0;
}

bool fuses_feed_forward(const Gpt2Config& c) { return c.residual_dropout == 0; }

Gpt2Config read_gpt2_config(const ConfigReader& config) {
  Gpt2Config out;
  out.vocab_size = config.required_size({"vocab_size"});
  out.hidden_size = config.required_size({"n_embd", "hidden_size"});
  out.num_layers = config.required_size({"n_layer", "num_hidden_layers"}, kMaxLayers);
  out.num_attention_heads = config.required_size({"n_head", "num_attention_heads"});
  out.num_positions = config.required_size({"n_positions", "max_position_embeddings"});
  if (out.hidden_size % out.num_attention_heads != 0) {
    config.fail(
        "n_head",
        formatted("{} does not divide n_embd = {}", out.num_attention_heads, out.hidden_size),
        "every head has as many channels");
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
  const NumberBytes bytes(precision);
  const Gpt2Config config = read_gpt2_config(reader);
  const std::int64_t d = config.hidden_size, f = config.intermediate_size;
  const std::string embedding = "transformer.wte.weight";
  ModelSpec model;
  model.inputs = decoder_inputs();
  model.vocab_size = config.vocab_size;
  model.max_positions = config.num_positions;
  model.layers.reserve(static_cast<std::size_t>(config.num_layers) + 3);
  model.layers.push_back(
      embedding_layer("transformer.wte",
                      {{embedding, {config.vocab_size, d}, {}},
                       {"transformer.wpe.weight", {config.num_positions, d}, {}}},
                      bytes, config.embedding_dropout));
  model.layers.back().reads.emplace_back("position_ids");
  model.layers.back().modules = {"transformer.wte", "transformer.wpe"};
  const auto [cost, frozen_cost] = block_costs(config, bytes);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    LayerInfo layer = hidden_layer("transformer.h." + std::to_string(i), LayerRole::kBlock, d);
    layer.reads = block_reads();
    append_parameters(layer, "ln_1", {d}, {d});
    append_parameters(layer, "attn.c_attn", {d, 3 * d}, {3 * d});
    append_parameters(layer, "attn.c_proj", {d, d}, {d});
    append_parameters(layer, "ln_2", {d}, {d});
    append_parameters(layer, "mlp.c_fc", {d, f}, {f});
    append_parameters(layer, "mlp.c_proj", {f, d}, {d});
    layer.cost = cost;
    layer.frozen_cost = frozen_cost;
    model.layers.push_back(std::move(layer));
  }
  model.layers.push_back(norm_layer(config, bytes));
  model.layers.push_back(
      head_layer(config.vocab_size, d, config.tie_word_embeddings ? embedding : "", bytes));
  return model;
}

}  // namespace sluice::detail
