#define SLUICE_KERNEL_FLOATS 8
#include "ops/kernels/levels.h"
#include "ops/kernels/table.h"

namespace sluice::ops {

constinit const Kernels kAvx2Kernels = table_of("avx2");

}  // namespace sluice::ops
