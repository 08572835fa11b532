#pragma once

#include "sluice/parts/group.h"
#include "sluice/parts/saver.h"

namespace sluice {

// Collective. Gathers the float32 adapter on rank 0's host, because PEFT reads a single file.
NamedTensors gather_adapter(const NamedTensors& own, const Group& world);

}  // namespace sluice
