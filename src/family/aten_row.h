// Collects the operators of one call and the tensors saved for their backward. Parameters cost
// nothing, since they always exist. Operators with weights keep saved tensors until W, the weight
// gradient.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/saturate.h"
#include "family/aten_operators.h"

namespace sluice::detail::aten_rows {

using Sizes = std::vector<std::int64_t>;
inline constexpr double kFloat = 4, kInt64 = 8;     // bytes per element
inline constexpr double kMostElements = 1LL << 48;  // per tensor, so that strides do not overflow

inline double as_double(std::int64_t count) { return static_cast<double>(count); }
inline std::int64_t product_of(const Sizes& sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes)
    product = saturating_multiply(product, std::max<std::int64_t>(0, size));
  return product;
}
inline std::int64_t last_of(const CallTensor& tensor) {
  return tensor.sizes.empty() ? 1 : tensor.sizes.back();
}
inline double element(const CallTensor& tensor) {
  if (tensor.dtype == "complex64") return 8;
  if (tensor.dtype == "complex128") return 16;
  return as_double(dtype_bytes(tensor.dtype));
}

// In `Needed`, "first" and "second" count the values that an operator reads. kWeight means its
// first weight.
class Row {
 public:
  Row(const OperatorCall& call, const Precision& precision) : call_(call), precision_(precision) {
    std::vector<std::string> arguments;
    for (const auto& [argument, tensors] : call.tensors) arguments.push_back(argument);
    begin(arguments, 0);
  }

  const OperatorCall& call() const { return call_; }
  const CallTensor& result(std::size_t i = 0) const { return call_.results[i]; }
  const CallTensor* tensor(std::string_view argument, std::size_t i = 0) const {
    return call_.tensor(argument, i);
  }
  const CallTensor* first() const {
    for (const auto& [argument, tensors] : call_.tensors)
      if (!tensors.empty()) return &tensors.front();
    return nullptr;
  }
  bool is_complete() const { return !call_.results.empty(); }

  void reads_first(const std::vector<std::string>& arguments) {
    std::vector<std::string> order = arguments;
    for (const auto& [argument, tensors] : call_.tensors)
      if (std::find(order.begin(), order.end(), argument) == order.end()) order.push_back(argument);
    row_.operators.clear();
    begin(order, 0);
  }
  // Splits off an operator that reads `arguments` and the previous operator's result `between`.
  void then_reads(const std::string& between, const std::vector<std::string>& arguments) {
    const std::string writes = std::exchange(at().writes, between);
    row_.operators.emplace_back();
    at().reads.push_back(between);
    for (const std::string& argument : arguments)
      for (const CallTensor& tensor : tensors_of(argument)) add_operand(tensor);
    at().writes = writes;
  }
  void reads_only(const std::vector<std::string>& arguments) {
    const std::string writes = at().writes;
    at() = {};
    for (const std::string& argument : arguments)
      for (const CallTensor& tensor : tensors_of(argument)) add_operand(tensor);
    at().writes = writes;
  }

  // Returns when the operand's gradient is computed, if ever.
  std::optional<Needed> wants(const CallTensor& operand) const {
    if (!is_differentiable(operand)) return std::nullopt;
    const Operator& of = row_.operators.back();
    if (!operand.weight.empty())
      return !of.weights.empty() && of.weights.front() == operand.weight ? Needed::kWeight
                                                                         : Needed::kTrains;
    if (!of.reads.empty() && of.reads[0] == operand.name) return Needed::kFirstFlows;
    if (of.reads.size() > 1 && of.reads[1] == operand.name) return Needed::kSecondFlows;
    return Needed::kFlows;
  }

  void keep(const CallTensor& tensor, Needed when = Needed::kBackward) {
    if (!tensor.weight.empty() && !tensor.is_made) return;
    keep_bytes(tensor.name, tensor.bytes(), when);
  }
  void keep(const CallTensor& tensor, std::optional<Needed> when) {
    if (when) keep(tensor, *when);
  }
  // Saves a tensor that this operator creates.
  void keep_own(std::string_view what, double bytes, Needed when = Needed::kBackward) {
    keep_bytes(own(what), bytes, when);
    row_.in_forward += bytes;
  }
  void keep_own(std::string_view what, double bytes, std::optional<Needed> when) {
    if (when) keep_own(what, bytes, *when);
  }
  // Saves an operand that a product reads as matrices of `sizes`, or its copy if autocast or
  // another layout requires one.
  void keep_operand(const CallTensor& tensor, const Sizes& sizes, std::optional<Needed> when) {
    if (!when) return;
    const double casted = product_bytes(tensor) * as_double(product_of(sizes));
    if (is_casted(tensor)) {
      if (tensor.weight.empty() || tensor.is_made) keep_own("cast of " + tensor.name, casted, when);
    } else if (is_viewable(tensor, sizes)) {
      keep(tensor, when);
    } else {
      keep_own("copy of " + tensor.name, casted, when);
    }
  }
  bool is_casted(const CallTensor& tensor) const {
    return precision_.casts() && tensor.is_floating() && tensor.dtype != precision_.products;
  }
  double product_bytes(const CallTensor& tensor) const {
    return is_casted(tensor) ? as_double(precision_.product_bytes()) : element(tensor);
  }

  // Counts `operations` for the forward and for each operand's gradient.
  void product(const CallTensor& a, const CallTensor& b, double operations) {
    forward(operations);
    for (const CallTensor* operand : {&a, &b}) gradient_of(*operand, operations);
    for (const CallTensor* operand : {&a, &b})
      if (!operand->weight.empty() && !operand->is_made && is_casted(*operand))
        at().casted_weights += as_double(precision_.product_bytes()) * as_double(operand->numel());
  }
  void forward(double operations) { at().forward_flops.constant += operations; }
  void gradient_of(const CallTensor& operand, double operations) {
    if (!is_differentiable(operand)) return;
    (operand.weight.empty() ? at().input_flops : at().weight_flops).constant += operations;
  }

  // Adds bytes at the end of the layer's backward.
  void at_end(const std::string& name, double bytes) {
    at().bytes.push_back({.field = &LayerCost::at_end,
                          .needed = Needed::kTrains,
                          .name = name,
                          .bytes = {.constant = bytes}});
  }
  // Replaces all temporary bytes so far, including those of keep_own().
  void set_temporary_bytes(double bytes) { row_.in_forward = bytes; }
  void takes(double bytes) { row_.in_forward += bytes; }
  void add_backward_temporary_bytes(double bytes) { row_.in_backward += bytes; }
  void unknown() { row_.known = false; }

  OperatorRow finish() && {
    const Needed all = Needed::kTrains;
    for (Operator& of : row_.operators) {
      if (of.weights.empty()) continue;
      // The autograd node frees saved tensors only after W, the weight gradient.
      std::vector<OperatorBytes> later;
      for (const OperatorBytes& bytes : of.bytes) {
        if (bytes.field != &LayerCost::after_forward) continue;
        later.push_back({.field = &LayerCost::after_input,
                         .needed = bytes.needed == Needed::kWeight ? Needed::kWeight : all,
                         .name = bytes.name,
                         .bytes = bytes.bytes});
      }
      of.bytes.insert(of.bytes.end(), later.begin(), later.end());
      if (is_complete() && result().is_floating())
        of.bytes.push_back(
            {.field = &LayerCost::after_input,
             .needed = all,
             .name = "d " + result().name,
             .bytes = {.constant = element(result()) * as_double(result().numel())}});
    }
    double moment = row_.in_forward;
    std::vector<std::string> seen;
    const auto count = [&](const CallTensor& tensor) {
      if ((!tensor.weight.empty() && !tensor.is_made) ||
          std::find(seen.begin(), seen.end(), tensor.name) != seen.end())
        return;
      seen.push_back(tensor.name);
      moment += tensor.bytes();
    };
    for (const auto& [argument, tensors] : call_.tensors)
      std::for_each(tensors.begin(), tensors.end(), count);
    std::for_each(call_.results.begin(), call_.results.end(), count);
    at().bytes.push_back({.field = &LayerCost::in_forward,
                          .needed = Needed::kAlways,
                          .name = "moment",
                          .bytes = {.constant = moment}});
    for (std::size_t i = 1; i < call_.results.size(); ++i) {
      const CallTensor& more = call_.results[i];
      if (more.is_free || !more.is_floating() || more.name == result().name) continue;
      Operator& same = row_.operators.emplace_back();
      same.reads = {row_.operators[row_.operators.size() - 2].writes};
      same.writes = more.name;
    }
    return std::move(row_);
  }

 private:
  Operator& at() { return row_.operators.back(); }
  std::string own(std::string_view what) const {
    return std::string(what) + " in " + (is_complete() ? result().name : call_.target);
  }
  static bool is_differentiable(const CallTensor& operand) {
    return operand.is_floating() && !operand.is_free;
  }
  const std::vector<CallTensor>& tensors_of(const std::string& argument) const {
    static const std::vector<CallTensor> none;
    for (const auto& [name, tensors] : call_.tensors)
      if (name == argument) return tensors;
    return none;
  }
  void add_operand(const CallTensor& tensor) {
    if (!is_differentiable(tensor)) return;
    if (tensor.weight.empty())
      at().reads.push_back(tensor.name);
    else
      at().weights.push_back(tensor.weight);
  }
  void begin(const std::vector<std::string>& arguments, int) {
    row_.operators.emplace_back();
    for (const std::string& argument : arguments)
      for (const CallTensor& tensor : tensors_of(argument)) add_operand(tensor);
    for (const CallTensor& each : call_.results)
      if (each.is_floating() && !each.is_free) {
        at().writes = each.name;
        break;
      }
  }
  void keep_bytes(const std::string& name, double bytes, Needed when) {
    if (call_.without_gradient) return;
    at().bytes.push_back({.field = &LayerCost::after_forward,
                          .needed = when,
                          .name = name,
                          .bytes = {.constant = bytes}});
  }

  const OperatorCall& call_;
  const Precision& precision_;
  OperatorRow row_;
};

void linear(Row& row);
void mm(Row& row);
void mv(Row& row);
void dot(Row& row);
void addmm(Row& row);
void baddbmm(Row& row);
void matmul(Row& row);
void einsum(Row& row);
void convolution(Row& row);
void grouped(Row& row);
void attention(Row& row);
void all_operands(Row& row);

}  // namespace sluice::detail::aten_rows
