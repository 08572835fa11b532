// The test whether products in bfloat16 are faster than in float32 on this processor.
// Thread-safety: pure but for the time that it takes.
#pragma once

namespace sluice::ops {

// The time of a product of matrices in bfloat16 divided by that in float32, as LibTorch computes
// them on the calling thread's threads: measured, since processors that name the instructions may
// run them at half the speed, and others emulate them. Takes about 30 ms.
double bfloat16_time();

}  // namespace sluice::ops
