#pragma once

#include "sluice/parts/group.h"
#include "sluice/parts/saver.h"

namespace sluice {

// Gathers the whole float32 adapter in rank 0's host memory, because PEFT reads a single file.
// Collective.
NamedTensors gather_adapter(const NamedTensors& own, const Group& world);

}  // namespace sluice
