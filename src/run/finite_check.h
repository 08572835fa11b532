// Finds the first value of a rank that is not finite (Executor::find_non_finite).
// Thread-safety: one rank's thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "sluice/executor.h"

namespace sluice {

// The last in the list of observers, so that it sees what others put in place.
class FiniteCheck final : public ExecutorObserver {
 public:
  // stages: those of this rank by index, which outlive the check. last_stage: of the program.
  FiniteCheck(const std::map<int, Stage*>& stages, int last_stage)
      : stages_(stages), last_stage_(last_stage) {}

  void produced(const Action& action, const Values& outputs,
                std::vector<at::Tensor>& handed_on) override;
  // Looks at the sums of a stage after each of its backwards: they were finite before it, so what
  // is not came from it.
  void end(int index, const Action& action) override;

  // The first in a forward, else the first in a backward.
  std::optional<NonFinite> found() const;

 private:
  void note(const Action& action, bool in_forward, const std::string& name,
            const at::Tensor& tensor);

  const std::map<int, Stage*>& stages_;
  int last_stage_;
  std::optional<NonFinite> found_;
};

}  // namespace sluice
