// Finds the first value of a rank that is not finite (Executor::find_non_finite).
// Thread-safety: one rank's thread.
#pragma once

#include <optional>

#include "sluice/executor.h"

namespace sluice {

class FiniteCheck {
 public:
  void check_output(const Action& action, const std::string& name, const at::Tensor& tensor) {
    note(action, /*in_forward=*/true, name, tensor);
  }
  // After every backward: the sums were finite before it, so what is not came from it.
  void check_gradients(const Action& action, Stage& stage) {
    for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
      note(action, /*in_forward=*/false, stage.parameters()[i].name, stage.gradient(i));
    }
  }
  // The first in a forward, else the first in a backward.
  const std::optional<NonFinite>& found() const { return found_; }

 private:
  void note(const Action& action, bool in_forward, const std::string& name,
            const at::Tensor& tensor);

  std::optional<NonFinite> found_;
};

// Full name of the first parameter of the stage that is not finite, "" if all are.
std::string non_finite_parameter(Stage& stage);

}  // namespace sluice
