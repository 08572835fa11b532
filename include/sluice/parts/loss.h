// What a loss is to the pipeline: a sum over counted tokens, and their number.
//
// Owns: LossValue, LossFunction, AuxiliaryLoss.
// Does not own: which labels count (labels.h), the losses of the native families (causal_lm.h),
// scaling of gradients (options.h). Thread-safety: pure functions.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "sluice/parts/labels.h"
#include "sluice/parts/values.h"

namespace sluice {

// What the last stage makes of its outputs: the sum over counted tokens and their number.
struct LossValue {
  at::Tensor loss;         // scalar with a graph: what backward starts from
  std::int64_t count = 1;  // counted tokens behind it
};

// (const Values& outputs, const Values& batch) -> LossValue. outputs: values of the last chunk;
// batch: inputs of the microbatch ("labels", ...). Returns the *sum* of the token losses of the
// microbatch and the number of counted tokens. Holds any such function, or none.
class LossFunction {
 public:
  LossFunction() = default;
  LossFunction(std::nullptr_t) {}
  template <typename Function>
  requires(!std::same_as<std::remove_cvref_t<Function>, LossFunction>)
      LossFunction(Function function) {
    static_assert(std::is_invocable_v<Function&, const Values&, const Values&>,
                  "a loss takes (const sluice::Values& outputs, const sluice::Values& batch)");
    static_assert(
        std::is_convertible_v<std::invoke_result_t<Function&, const Values&, const Values&>,
                              LossValue>,
        "a loss returns a sluice::LossValue, the sum and the count; a function that returns a mean "
        "becomes one by sluice::mean_loss()");
    function_ = std::move(function);
  }

  explicit operator bool() const { return static_cast<bool>(function_); }
  LossValue operator()(const Values& outputs, const Values& batch) const {
    return function_(outputs, batch);
  }

 private:
  std::function<LossValue(const Values& outputs, const Values& batch)> function_;
};

// A loss beside that of the outputs, on whatever stage computes it: of a router of experts, of
// further prediction heads, of a distillation. A value that layers write and none reads: one
// number, the mean over a microbatch. It weighs as the mean loss of the microbatch does, times
// `scale`.
struct AuxiliaryLoss {
  std::string value;   // its name; with '*' and '?' a pattern, as for one of every layer
  double scale = 1.0;  // in the loss that a step differentiates and reports
};

// As count_labels, of every row. labels_BL: integers [batch, length], aligned with the ids.
std::int64_t count_tokens(const at::Tensor& labels_BL);

}  // namespace sluice
