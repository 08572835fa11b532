// Saves and loads a torch optimizer's state by parameter names, independent of the layout. Options
// such as the learning rate are not saved.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sluice/checkpoint.h"
#include "sluice/parts/saver.h"

namespace torch::optim {
class Optimizer;
}

namespace sluice {

// Key in Manifest::settings of the saved optimizers' kind.
inline constexpr const char* kOptimizerSetting = "optimizer";

// A whole parameter, or a contiguous range of one.
struct OptimizedElements {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  // Set if this rank has tensor-parallel slices, as in StatePart (load_state.h).
  const ParameterInfo* parameter = nullptr;
};
// Keyed by the tensor's unsafeGetTensorImpl().
using ParameterNames = std::map<const void*, OptimizedElements>;

// Returns the optimizer's kind, such as "AdamW". Throws Error(kUsage) unless it is Adam, AdamW,
// SGD, RMSprop or Adagrad.
std::string optimizer_name(const torch::optim::Optimizer& optimizer);
// Whether optimizer_name() knows the optimizer. These optimizers update element by element.
bool is_known_optimizer(const torch::optim::Optimizer& optimizer);

// Returns the state ("exp_avg/NAME", tensor), ("step/NAME", int64 scalar), .. of parameters that
// were updated.
NamedTensors torch_optimizer_state(const torch::optim::Optimizer& optimizer,
                                   const ParameterNames& names);

// Throws Error(kCheckpoint) if a saved parameter has state of another kind of optimizer.
void require_own_state(const torch::optim::Optimizer& optimizer, const ParameterNames& names,
                       const Checkpoint& checkpoint);

// Loads the optimizer's state. Parameters without saved state start without state. Throws
// Error(kCheckpoint).
void load_torch_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                          const Checkpoint& checkpoint);

}  // namespace sluice
