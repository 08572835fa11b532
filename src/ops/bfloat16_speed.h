#pragma once

namespace sluice::ops {

// Returns the time of a matrix product in bfloat16 over its time in float32, measured with LibTorch
// in about 30 ms. CPU flags are not enough: some processors run bfloat16 at half speed, others
// emulate it.
double bfloat16_time();

}  // namespace sluice::ops
