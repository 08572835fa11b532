// All compiled kernel tables. The processor may lack some instruction sets, so callers use
// kernels().
#pragma once

#include "base/cpu_level.h"
#include "ops/kernels/kernels.h"

namespace sluice::ops {

extern const Kernels kBaseKernels;
#ifdef __x86_64__
extern const Kernels kAvx2Kernels, kAvx512Kernels;
#endif

const Kernels& kernels_of(CpuLevel level);

}  // namespace sluice::ops
