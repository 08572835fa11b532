// The adapter of all ranks on the one that writes it: PEFT reads one file.
// Thread-safety: one rank's thread; collective.
#pragma once

#include "sluice/parts/group.h"
#include "sluice/parts/saver.h"

namespace sluice {

// Collective. The parameters of all ranks, which are all float32, on the host of member 0, under
// their names in adapter_model.safetensors; none on the others. A copy.
NamedTensors gather_adapter(const NamedTensors& own, const Group& world);

}  // namespace sluice
