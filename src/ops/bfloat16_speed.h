#pragma once

namespace sluice::ops {

// Returns the time of a bfloat16 matrix product divided by its time in float32. Measures for about
// 30 ms, because CPU flags are misleading: some processors run bfloat16 at half speed or emulate
// it.
double bfloat16_time();

}  // namespace sluice::ops
