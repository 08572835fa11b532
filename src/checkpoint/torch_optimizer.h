// The state of one of torch's optimizers by full names of parameters, which no layout changes.
//
// Does not own: its options, as the learning rate: the program that made it sets them.
// Thread-safety: the thread of the optimizer.
#pragma once

#include <map>
#include <string>

#include "sluice/checkpoint.h"
#include "sluice/parts/rank_state.h"

namespace torch::optim {
class Optimizer;
}

namespace sluice {

// Full names of parameters by their tensors (unsafeGetTensorImpl).
using ParameterNames = std::map<const void*, std::string>;

// "AdamW". Throws Error(kUsage) for an optimizer whose state is not known: others than Adam, AdamW,
// SGD, RMSprop and Adagrad.
std::string optimizer_name(const torch::optim::Optimizer& optimizer);

// {"exp_avg/NAME", tensor}, {"step/NAME", int64 scalar}, ..: of parameters that were updated.
NamedTensors torch_optimizer_state(const torch::optim::Optimizer& optimizer,
                                   const ParameterNames& names);

// Replaces the state by what the checkpoint has, which is of an optimizer of this name; parameters
// without any there begin anew. Throws Error(kCheckpoint).
void load_torch_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                          const Checkpoint& checkpoint);

}  // namespace sluice
