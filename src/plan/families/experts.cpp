// Elements: D hidden size, F inner size of an expert, E experts, K of them for a token.
#include "plan/families/experts.h"

#include <algorithm>

#include "base/format.h"

namespace sluice::detail {
namespace {

// Bytes that the router keeps for every token: probabilities of all experts; of the K chosen these,
// their numbers and their weights; where a choice goes among the tokens sorted by expert, and back.
double routing_bytes(const ExpertsConfig& experts, const NumberBytes& bytes) {
  const std::int64_t e = experts.num_experts, k = experts.top_k;
  double sum = NumberBytes::wide(e) + 3 * kInt64 * as_double(k) +
               (experts.wide_weights ? NumberBytes::wide(k) : bytes.product(k));
  if (experts.normalizes) sum += NumberBytes::wide(k + 1);  // and their sum
  if (experts.balance_coefficient) sum += bytes.casts() ? NumberBytes::wide(e) : bytes.stored(e);
  return sum;
}

}  // namespace

std::string balance_value(const std::string& block) { return "load_balancing." + block; }

BlockPart experts_part(const ExpertsConfig& experts, std::int64_t hidden_size,
                       const NumberBytes& bytes) {
  const std::int64_t d = hidden_size, f = experts.intermediate_size;
  const std::int64_t e = experts.num_experts, k = experts.top_k;
  BlockPart part;
  part.parameters.push_back({experts.block + ".gate.weight", {e, d}});
  for (std::int64_t i = 0; i < e; ++i) {
    const std::string expert = formatted("{}.experts.{}.", experts.block, i);
    part.parameters.push_back({expert + experts.gate + ".weight", {f, d}});
    part.parameters.push_back({expert + experts.up + ".weight", {f, d}});
    part.parameters.push_back({expert + experts.down + ".weight", {d, f}});
  }
  // A token meets the router and K experts; what is held does not depend on which. Casted weights
  // are those of all.
  LayerCost& cost = part.cost;
  cost.forward_flops.per_token =
      2 * as_double(d) * (as_double(e) + 3 * as_double(k) * as_double(f));
  cost.input_flops = cost.weight_flops = cost.forward_flops;
  const double weights = as_double(d) * as_double(e) * (1 + 3 * as_double(f));
  cost.casted_weights = bytes.casted_weights(weights);
  if (experts.balance_coefficient) cost.after_forward.constant += NumberBytes::wide(e);
  cost.on_entry = {.constant = bytes.weight_gradient(as_double(f) * as_double(d)),
                   .per_token = bytes.product(2 * k * d)};
  cost.in_forward.per_token = bytes.product(4 * d + 3 * k * d);
  part.frozen_cost = cost;
  // For every chosen expert gate, its activation, up, their product and the result.
  const int between = experts.activation == Activation::kRelu ? 2 : 3;
  const double chosen = bytes.product(k * (between * f + d)) + routing_bytes(experts, bytes);
  cost.after_forward.per_token =
      chosen + bytes.product(k * f) + bytes.operand(d) + bytes.operand(k * d, 2);
  part.frozen_cost.after_forward.per_token = chosen;
  // The input of every matrix and the gradient of its output.
  cost.after_input.per_token = bytes.operand(d) + bytes.product(e) + bytes.operand(k * d, 2) +
                               bytes.product(k * (3 * f + d));
  return part;
}

}  // namespace sluice::detail
