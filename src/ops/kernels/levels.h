// The tables of all instruction sets that were compiled. A processor without one of them must not
// call its kernels: kernels() chooses.
#pragma once

#include "base/cpu_level.h"
#include "ops/kernels/kernels.h"

namespace sluice::ops {

extern const Kernels kBaseKernels;
#ifdef __x86_64__
extern const Kernels kAvx2Kernels, kAvx512Kernels;
#endif

// The kernels of a level that this processor has.
const Kernels& kernels_of(CpuLevel level);

}  // namespace sluice::ops
