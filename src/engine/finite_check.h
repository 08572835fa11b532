// Finds the first value of a rank that is not finite (Executor::find_non_finite).
// Thread-safety: one rank's thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/executor.h"

namespace sluice {

// The last in the list of observers, so that it sees what others put in place.
class FiniteCheck final : public ExecutorObserver {
 public:
  // stages: those of this rank by index. Both outlive the check.
  FiniteCheck(const std::map<int, Stage*>& stages, const Flow& flow)
      : stages_(stages), flow_(flow) {}

  void produced(const Action& action, const Values& outputs,
                std::vector<at::Tensor>& handed_on) override;
  // Looks at the sums of a stage after each of its backwards: they were finite before it, so what
  // is not came from it.
  void end(int index, const Action& action) override;

  // The first in a forward, else the first in a backward.
  const std::optional<NonFinite>& found() const { return found_; }

 private:
  // computed_in: of the type in which the value came to be, as a float32 sum of float16 gradients.
  void note(const Action& action, bool in_forward, const std::string& name,
            const at::Tensor& tensor, const at::Tensor& computed_in);

  const std::map<int, Stage*>& stages_;
  const Flow& flow_;
  std::optional<NonFinite> found_;
};

}  // namespace sluice
