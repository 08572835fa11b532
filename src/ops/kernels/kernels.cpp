#include "ops/kernels/kernels.h"

#include "ops/kernels/levels.h"

namespace sluice::ops {

const Kernels& kernels_of(CpuLevel level) {
#ifdef __x86_64__
  if (level == CpuLevel::kAvx512) return kAvx512Kernels;
  if (level == CpuLevel::kAvx2) return kAvx2Kernels;
#endif
  (void)level;
  return kBaseKernels;
}

const Kernels& kernels() {
  static const Kernels& chosen = kernels_of(cpu_level());
  return chosen;
}

}  // namespace sluice::ops
