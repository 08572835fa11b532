#include "family/planned.h"

#include <utility>

#include "family/decoder.h"

namespace sluice::detail {
namespace {

double real(std::int64_t count) { return static_cast<double>(count); }

}  // namespace

PlannedLayer::PlannedLayer(std::string name, std::int64_t hidden, const Precision& precision)
    : layer_(hidden_layer(std::move(name), LayerRole::kBlock, hidden)),
      value_bytes_(real(precision.product_bytes())) {
  layer_.undivided = "models that are only planned have no tensor parallelism";
  layer_.parameters_known = true;
  kept_ = 2 * real(hidden);  // the inputs of both norms
}

void PlannedLayer::add(const std::string& name, std::vector<std::int64_t> shape) {
  ParameterSpec& parameter = layer_.parameters.emplace_back();
  parameter.name = layer_.name + "." + name;
  parameter.shape = std::move(shape);
}

void PlannedLayer::matrix(const std::string& name, std::int64_t rows, std::int64_t columns,
                          double share) {
  add(name + ".weight", {rows, columns});
  flops_ += share * 2 * real(rows) * real(columns);
  kept_ += share * real(columns);
}

void PlannedLayer::experts(const std::string& name, std::int64_t count, std::int64_t used,
                           std::int64_t rows, std::int64_t columns) {
  add(name, {count, rows, columns});
  flops_ += real(used) * 2 * real(rows) * real(columns);
  kept_ += real(used) * real(columns);
}

void PlannedLayer::shares(std::int64_t rows, std::int64_t columns) {
  flops_ += 2 * real(rows) * real(columns);
  kept_ += real(rows) + real(columns);
}

void PlannedLayer::vector(const std::string& name, std::int64_t size) { add(name, {size}); }

void PlannedLayer::attention(std::int64_t query_channels, std::int64_t value_channels,
                             std::int64_t window, std::int64_t kept) {
  const double flops = 2 * (real(query_channels) + real(value_channels));
  if (window > 0) {
    flops_ += flops * real(window);
    weightless_ += flops * real(window);
  } else {
    pair_flops_ += flops;
  }
  kept_ += real(kept);
}

LayerInfo PlannedLayer::layer(LayerRole role) const {
  LayerInfo layer = layer_;
  layer.role = role;
  LayerCost& cost = layer.cost;
  cost.forward_flops = {.per_token = flops_, .per_pair = pair_flops_};
  // Backward of attention: two products for each of the forward's, none of them for weights.
  cost.input_flops = {.per_token = flops_ + weightless_, .per_pair = 2 * pair_flops_};
  cost.weight_flops = {.per_token = flops_ - weightless_};
  cost.after_forward = {.per_token = value_bytes_ * kept_};
  return layer;
}

}  // namespace sluice::detail
