#include "plan/families/decoder.h"

#include <algorithm>

#include "plan/families/fused.h"

namespace sluice::detail {
namespace {

ShapePolynomial larger(const ShapePolynomial& a, const ShapePolynomial& b) {
  return {std::max(a.constant, b.constant), std::max(a.per_row, b.per_row),
          std::max(a.per_token, b.per_token), std::max(a.per_pair, b.per_pair),
          std::max(a.per_length, b.per_length)};
}

}  // namespace

// The gradients of queries, keys, values and the result; of every pair, where attention drops some,
// that of its probability, in whose place that of the score comes.
ShapePolynomial entry_of_plain_attention(std::int64_t width, std::int64_t heads, bool drops,
                                         const NumberBytes& bytes) {
  return {.per_token = bytes.product(width), .per_pair = drops ? bytes.product(heads) : 0.0};
}

LayerCost one_after_other(const LayerCost& a, const LayerCost& b) {
  return {.forward_flops = ShapePolynomial::sum(a.forward_flops, b.forward_flops),
          .input_flops = ShapePolynomial::sum(a.input_flops, b.input_flops),
          .weight_flops = ShapePolynomial::sum(a.weight_flops, b.weight_flops),
          .after_forward = ShapePolynomial::sum(a.after_forward, b.after_forward),
          .after_input = ShapePolynomial::sum(a.after_input, b.after_input),
          .on_entry = larger(a.on_entry, b.on_entry),
          .at_end = larger(a.at_end, b.at_end),
          .in_forward = larger(a.in_forward, b.in_forward),
          .casted_weights = a.casted_weights + b.casted_weights};
}

std::vector<ValueSpec> decoder_inputs() {
  return {{"input_ids", {kMicrobatchRows, kMicrobatchLength}, "int64"},
          {"labels", {kMicrobatchRows, kMicrobatchLength}, "int64"}};
}

std::vector<std::string> block_reads() { return {"hidden", "attention_mask", "position_ids"}; }

void append_parameters(LayerInfo& layer, const std::string& name, std::vector<std::int64_t> weight,
                       std::vector<std::int64_t> bias) {
  const std::string prefix = layer.name + "." + name;
  layer.parameters.push_back({prefix + ".weight", std::move(weight), {}});
  if (!bias.empty()) layer.parameters.push_back({prefix + ".bias", std::move(bias), {}});
}

LayerInfo hidden_layer(std::string name, LayerRole role, std::int64_t width) {
  LayerInfo layer;
  layer.name = std::move(name);
  layer.role = role;
  layer.reads = {"hidden"};
  layer.writes = {{"hidden", {kMicrobatchRows, kMicrobatchLength, width}}};
  return layer;
}

LayerInfo embedding_layer(std::string name, std::vector<ParameterSpec> parameters,
                          const NumberBytes& bytes, double dropout) {
  const ParameterSpec& table = parameters.front();
  const std::int64_t width = table.shape.at(1);
  LayerInfo layer = hidden_layer(std::move(name), LayerRole::kEmbedding, width);
  layer.reads = {"input_ids"};
  // The ids; the gradient of the table is as large as the table, unless it is added in place.
  layer.cost.after_forward.per_token = kInt64 + (dropout > 0 ? bytes.stored(width) : 0.0);
  layer.cost.after_input.per_token = kInt64 + bytes.stored(width);
  if (!bytes.fuses()) layer.cost.at_end.constant = bytes.stored(table.numel());
  // The rows that are looked up, and twice as much with dropout.
  layer.cost.in_forward.per_token = bytes.stored(dropout > 0 ? 2 * width : width);
  layer.parameters = std::move(parameters);
  return layer;
}

LayerInfo head_layer(std::int64_t vocab_size, std::int64_t width, const std::string& embedding,
                     const NumberBytes& bytes) {
  LayerInfo layer = hidden_layer("lm_head", LayerRole::kHead, vocab_size);
  layer.writes.front().name = "logits";
  layer.parameters = {{"lm_head.weight", {vocab_size, width}, embedding}};
  if (bytes.chunks_loss(vocab_size)) {
    set_loss_by_blocks(vocab_size, width, layer);
    return layer;
  }
  const double weights = static_cast<double>(vocab_size) * static_cast<double>(width);
  const double flops = 2.0 * weights;
  layer.cost.forward_flops.per_token = flops;
  layer.cost.input_flops.per_token = flops;
  layer.cost.weight_flops.per_token = flops;
  // The log-probabilities and targets of the loss.
  layer.cost.casted_weights = bytes.casted_weights(weights);
  layer.cost.after_forward = {.per_token = NumberBytes::wide(vocab_size) + kInt64};
  layer.cost.after_input = {.per_token = bytes.product(vocab_size)};
  // Fused, the gradient takes the place of the logits.
  layer.cost.on_entry.per_token = NumberBytes::wide(bytes.fuses() ? width : 2 * vocab_size);
  layer.frozen_cost = layer.cost;
  layer.frozen_cost->after_input = {};
  return layer;
}

}  // namespace sluice::detail
