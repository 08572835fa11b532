// Tensors of which each rank along tensor parallelism has its slices, as a checkpoint holds them.
// Thread-safety: one rank's thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/run_groups.h"
#include "sluice/layer.h"
#include "sluice/parts/saver.h"
#include "sluice/parts/stage.h"

namespace sluice {

// By full name, the parameters of a rank. The stages must outlive it.
std::map<std::string, const ParameterInfo*> parameters_by_name(const std::vector<Stage*>& stages);

// Collective over the ranks that share the slices, which give the same names: of what is divided
// each tensor is then whole on one of them, spread by size, in new memory; the rest, which all have
// alike, is the first's. tensors: parameters by their name, or their state as "KIND/NAME".
NamedTensors gather_slices(NamedTensors tensors,
                           const std::map<std::string, const ParameterInfo*>& parameters,
                           const RunGroups& groups);

// The part of a whole parameter that this rank holds, in new memory unless that is all of it.
at::Tensor held_of(const ParameterInfo& parameter, const at::Tensor& whole);

}  // namespace sluice
