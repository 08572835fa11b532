#include "ops/bfloat16_speed.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::ops {
namespace {

TEST(Bfloat16SpeedTest, IsARatioOfTwoMeasuredTimes) {
  const double time = bfloat16_time();
  EXPECT_TRUE(std::isfinite(time));
  EXPECT_GT(time, 0.01);
  EXPECT_LT(time, 1000);
}

}  // namespace
}  // namespace sluice::ops
