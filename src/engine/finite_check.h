// Finds a rank's first non-finite value, for Executor::find_non_finite.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/executor.h"

namespace sluice {

// Must be the last observer, to see values that others replace.
class FiniteCheck final : public ExecutorObserver {
 public:
  FiniteCheck(const std::map<int, Stage*>& stages, const Flow& flow)
      : stages_(stages), flow_(flow) {}

  void produced(const Action& action, const Values& outputs,
                std::vector<at::Tensor>& handed_on) override;
  // Checks a stage's gradient sums after each backward. They were finite before, so this backward
  // caused any non-finite value.
  void end(int index, const Action& action) override;

  // The first non-finite value of a forward or, without one, of a backward.
  const std::optional<NonFinite>& found() const { return found_; }

 private:
  // computed_in: a tensor of the computation's dtype. A float32 sum may hold float16 gradients.
  void note(const Action& action, bool in_forward, const std::string& name,
            const at::Tensor& tensor, const at::Tensor& computed_in);

  const std::map<int, Stage*>& stages_;
  const Flow& flow_;
  std::optional<NonFinite> found_;
};

}  // namespace sluice
