#pragma once

namespace sluice::ops {

// Returns the time of a bfloat16 matrix product divided by its time in float32. Measures for about
// 30 ms, because processors may emulate bfloat16 in spite of their CPU flags.
double bfloat16_time();

}  // namespace sluice::ops
