// Saves and loads the state of a torch optimizer under full parameter names, independent of the
// layout. The program sets options such as the learning rate.
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

// In Manifest::settings: the kind of the saved optimizers.
inline constexpr const char* kOptimizerSetting = "optimizer";

// A parameter, or a flat range of one.
struct OptimizedElements {
  std::string name;
  std::vector<std::int64_t> shape;  // whole shape
  std::int64_t begin = 0;
  // As StatePart::parameter (load_state.h).
  const ParameterInfo* parameter = nullptr;
};
// Keyed by unsafeGetTensorImpl().
using ParameterNames = std::map<const void*, OptimizedElements>;

// Returns for example "AdamW". Throws Error(kUsage) unless it is Adam, AdamW, SGD, RMSprop or
// Adagrad.
std::string optimizer_name(const torch::optim::Optimizer& optimizer);
// Known optimizers are element-wise.
bool is_known_optimizer(const torch::optim::Optimizer& optimizer);

// Returns ("exp_avg/NAME", tensor), ("step/NAME", int64 scalar), .. of updated parameters.
NamedTensors torch_optimizer_state(const torch::optim::Optimizer& optimizer,
                                   const ParameterNames& names);

// Throws Error(kCheckpoint) if a parameter has state of another kind of optimizer.
void require_own_state(const torch::optim::Optimizer& optimizer, const ParameterNames& names,
                       const Checkpoint& checkpoint);

// Replaces the optimizer's state. Parameters without saved state start anew. Throws
// Error(kCheckpoint).
void load_torch_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                          const Checkpoint& checkpoint);

}  // namespace sluice
