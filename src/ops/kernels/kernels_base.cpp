#define SLUICE_KERNEL_FLOATS 4
#include "ops/kernels/levels.h"
#include "ops/kernels/table.h"

namespace sluice::ops {

constinit const Kernels kBaseKernels = table_of("base");

}  // namespace sluice::ops
