#pragma once

namespace sluice::ops {

// Returns the time of a bfloat16 matrix product divided by the time of the same product in float32.
// LibTorch computes both, on the calling thread's threads. We measure because some processors have
// bfloat16 instructions but run them at half the speed, and others emulate them. Takes about 30 ms.
double bfloat16_time();

}  // namespace sluice::ops
