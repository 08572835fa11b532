#define SLUICE_KERNEL_FLOATS 16
#include "ops/kernels/levels.h"
#include "ops/kernels/table.h"

namespace sluice::ops {

constinit const Kernels kAvx512Kernels = table_of("avx512");

}  // namespace sluice::ops
