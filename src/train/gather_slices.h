#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/run_groups.h"
#include "sluice/layer.h"
#include "sluice/parts/saver.h"
#include "sluice/parts/stage.h"

namespace sluice {

// The stages must outlive the result.
std::map<std::string, const ParameterInfo*> parameters_by_name(const std::vector<Stage*>& stages);

// Assembles tensor-parallel slices into whole tensors for a checkpoint. Collective over the
// tensor-parallel ranks, which must pass the same names. Returns each divided tensor on one rank,
// in new memory, spread by size. Only the first rank returns undivided tensors. tensors: parameters
// by name, or optimizer state by "KIND/NAME".
NamedTensors gather_slices(NamedTensors tensors,
                           const std::map<std::string, const ParameterInfo*>& parameters,
                           const RunGroups& groups);

// Returns this rank's slices of `whole`, in new memory if they are not all of it.
at::Tensor held_of(const ParameterInfo& parameter, const at::Tensor& whole);

}  // namespace sluice
