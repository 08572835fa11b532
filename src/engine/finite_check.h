// Finds a rank's first non-finite output or gradient, for Executor::find_non_finite().
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/executor.h"

namespace sluice {

// Must be the last observer, to see the values that other observers replace.
class FiniteCheck final : public ExecutorObserver {
 public:
  FiniteCheck(const std::map<int, Stage*>& stages, const Flow& flow)
      : stages_(stages), flow_(flow) {}

  void produced(const Action& action, const Values& outputs,
                std::vector<at::Tensor>& handed_on) override;
  // Checks gradient sums after each backward. They were finite before, so this backward made any
  // non-finite value.
  void end(int index, const Action& action) override;

  // The first non-finite value that a forward produced. If all forwards were finite, the first that
  // a backward produced. None if all values were finite.
  const std::optional<NonFinite>& found() const { return found_; }

 private:
  // Records a non-finite tensor. computed_in: has the dtype of the computation, because float16
  // gradients may be summed in float32.
  void note(const Action& action, bool in_forward, const std::string& name,
            const at::Tensor& tensor, const at::Tensor& computed_in);

  const std::map<int, Stage*>& stages_;
  const Flow& flow_;
  std::optional<NonFinite> found_;
};

}  // namespace sluice
