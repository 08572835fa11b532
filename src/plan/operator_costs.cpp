#include "plan/operator_costs.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/name_pattern.h"

namespace sluice::detail {
namespace {

ShapePolynomial larger(const ShapePolynomial& a, const ShapePolynomial& b) {
  return {.constant = std::max(a.constant, b.constant),
          .per_row = std::max(a.per_row, b.per_row),
          .per_token = std::max(a.per_token, b.per_token),
          .per_pair = std::max(a.per_pair, b.per_pair),
          .per_length = std::max(a.per_length, b.per_length)};
}

void add(ShapePolynomial& sum, const ShapePolynomial& more, double factor = 1) {
  sum = ShapePolynomial::sum(sum, more, factor);
}

struct Gradients {
  bool first = false, second = false, flows = false;
  bool weight = false, trains = false;

  bool needs(Needed needed) const {
    const bool backward = flows || trains;
    switch (needed) {
      case Needed::kAlways:
        return true;
      case Needed::kForwardOnly:
        return !backward;
      case Needed::kBackward:
        return backward;
      case Needed::kWeight:
        return weight;
      case Needed::kNoWeight:
        return backward && !weight;
      case Needed::kTrains:
        return trains;
      case Needed::kFlows:
        return flows;
      case Needed::kFirstFlows:
        return first;
      case Needed::kSecondFlows:
        return second;
      case Needed::kFrozen:
        return flows && !trains;
    }
    return false;
  }
};

constexpr std::array kFields = {&LayerCost::after_forward,
                                &LayerCost::after_input,
                                &LayerCost::on_entry,
                                &LayerCost::in_weight,
                                &LayerCost::at_end,
                                &LayerCost::in_forward,
                                &LayerCost::pooled_until_input,
                                &LayerCost::pooled_until_weight,
                                &LayerCost::pooled_after_input,
                                &LayerCost::pooled_in_backward,
                                &LayerCost::pooled_in_forward};

using Named = std::map<std::string, ShapePolynomial>;

void add_largest(Named& named, const std::string& name, const ShapePolynomial& bytes) {
  const auto [of, is_first] = named.try_emplace(name, bytes);
  if (!is_first) of->second = larger(of->second, bytes);
}

ShapePolynomial of_share(const OperatorBytes& bytes, const LayerShare& share) {
  return ShapePolynomial::sum(ShapePolynomial::sum(bytes.bytes, bytes.columns, share.columns),
                              bytes.rows, share.rows);
}

ShapePolynomial sum_of(const Named& named) {
  ShapePolynomial sum;
  for (const auto& [name, bytes] : named) add(sum, bytes);
  return sum;
}

}  // namespace

LayerCost cost_of(const LayerOperators& operators,
                  const std::function<bool(const std::string&)>& trains, bool flows,
                  const LayerShare& share) {
  std::array<Named, kFields.size()> named;
  LayerCost cost;
  std::set<std::string> flowing;
  if (flows) flowing.insert("x");
  for (const Operator& each : operators.all) {
    Gradients gradients;
    for (std::size_t i = 0; i < each.reads.size(); ++i) {
      const bool wanted = flowing.contains(each.reads[i]);
      gradients.flows |= wanted;
      if (i == 0) gradients.first = wanted;
      if (i == 1) gradients.second = wanted;
    }
    for (std::size_t i = 0; i < each.weights.size(); ++i) {
      const bool does = trains(each.weights[i]);
      gradients.trains |= does;
      if (i == 0) gradients.weight = does;
    }
    if (gradients.needs(Needed::kBackward)) flowing.insert(each.writes);
    const bool is_divided =
        each.of_heads || std::any_of(each.weights.begin(), each.weights.end(), share.divides);
    const double part = is_divided || each.of_rows ? share.columns : 1;
    add(cost.forward_flops, each.forward_flops, part);
    if (gradients.flows) add(cost.input_flops, each.input_flops, part);
    if (gradients.weight) add(cost.weight_flops, each.weight_flops, part);
    cost.casted_weights += (is_divided ? share.columns : 1) * each.casted_weights;
    const bool is_early =
        (each.plain == Operator::Plain::kMatrix && is_divided && share.early_matrices) ||
        (each.plain == Operator::Plain::kNorm && share.early_norms);
    for (const OperatorBytes& bytes : each.bytes) {
      if (!gradients.needs(bytes.needed)) continue;
      if (is_early && bytes.field == &LayerCost::after_input) continue;
      for (std::size_t i = 0; i < kFields.size(); ++i)
        if (bytes.field == kFields[i]) add_largest(named[i], bytes.name, of_share(bytes, share));
    }
  }
  for (std::size_t i = 0; i < kFields.size(); ++i) cost.*kFields[i] = sum_of(named[i]);
  return cost;
}

LayerCost cost_of(const LayerOperators& operators) {
  return cost_of(
      operators, [](const std::string&) { return true; }, /*flows=*/true);
}

bool has_gradient_of_each_slice(const LayerInfo& layer, const std::string& parameter) {
  if (!layer.operators) return false;
  return std::any_of(
      layer.operators->all.begin(), layer.operators->all.end(), [&](const Operator& each) {
        return each.of_rows &&
               std::any_of(each.weights.begin(), each.weights.end(),
                           [&](const std::string& weight) {
                             return matches_pattern(layer.name + "." + weight, parameter);
                           });
      });
}

}  // namespace sluice::detail
