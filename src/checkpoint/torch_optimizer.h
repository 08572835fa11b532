// The state of one of torch's optimizers by full names of parameters, which no layout changes.
//
// Does not own: its options, as the learning rate: the program that made it sets them.
// Thread-safety: the thread of the optimizer.
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

// The key of Manifest::settings that says the kind of the optimizers whose state is there.
inline constexpr const char* kOptimizerSetting = "optimizer";

// The role of a tensor of the optimizer: a parameter, or some elements of one, flat.
struct OptimizedElements {
  std::string name;                 // full, of the parameter
  std::vector<std::int64_t> shape;  // shape of the whole tensor
  std::int64_t begin = 0;           // the first of the elements
  // The parameter of which this rank holds slices: `begin` is among what it holds. null: it holds
  // all.
  const ParameterInfo* parameter = nullptr;
};
// By tensor (unsafeGetTensorImpl).
using ParameterNames = std::map<const void*, OptimizedElements>;

// "AdamW". Throws Error(kUsage) for an optimizer whose state is not known: others than Adam, AdamW,
// SGD, RMSprop and Adagrad.
std::string optimizer_name(const torch::optim::Optimizer& optimizer);
// True for the known optimizers, which all go element by element.
bool is_known_optimizer(const torch::optim::Optimizer& optimizer);

// {"exp_avg/NAME", tensor}, {"step/NAME", int64 scalar}, ..: of parameters that were updated, of
// the elements that the optimizer has.
NamedTensors torch_optimizer_state(const torch::optim::Optimizer& optimizer,
                                   const ParameterNames& names);

// Throws Error(kCheckpoint) where the checkpoint has, of a parameter of the optimizer, state that
// only another kind of optimizer keeps.
void require_own_state(const torch::optim::Optimizer& optimizer, const ParameterNames& names,
                       const Checkpoint& checkpoint);

// Replaces the state by what the checkpoint has, which is of an optimizer of this name; parameters
// without any there start anew. Of elements no more is read than the rows that they are in. Throws
// Error(kCheckpoint).
void load_torch_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                          const Checkpoint& checkpoint);

}  // namespace sluice
