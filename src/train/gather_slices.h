// Assembles whole tensors for a checkpoint from the slices of the tensor-parallel ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/run_groups.h"
#include "sluice/layer.h"
#include "sluice/parts/saver.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Returns the parameters of a rank by full name. The stages must outlive the result.
std::map<std::string, const ParameterInfo*> parameters_by_name(const std::vector<Stage*>& stages);

// Collective over the tensor-parallel ranks, which must pass the same names. Each divided tensor is
// returned whole, in new memory, on one of the ranks. The tensors are spread over the ranks by
// size. Undivided tensors are equal on all ranks, so only the first rank returns them. tensors:
// parameters by name, or their optimizer state as "KIND/NAME".
NamedTensors gather_slices(NamedTensors tensors,
                           const std::map<std::string, const ParameterInfo*>& parameters,
                           const RunGroups& groups);

// Returns the part of a whole parameter that this rank holds. An undivided parameter is returned as
// it is, a part in new memory.
at::Tensor held_of(const ParameterInfo& parameter, const at::Tensor& whole);

}  // namespace sluice
