#include <gtest/gtest.h>

#include <cmath>

#include "sluice/options.h"

namespace sluice {
namespace {

LearningRateOptions schedule(std::int64_t warmup_steps, Decay decay, double min_lr_factor) {
  LearningRateOptions options;
  options.warmup_steps = warmup_steps;
  options.decay = decay;
  options.min_lr_factor = min_lr_factor;
  return options;
}

TEST(LearningRateTest, IsConstantByDefault) {
  for (std::int64_t step : {1, 50, 100}) EXPECT_EQ(learning_rate(step, 100, 3e-4, {}), 3e-4);
}

TEST(LearningRateTest, WarmsUpInEqualParts) {
  const auto options = schedule(4, Decay::kConstant, 0.0);
  EXPECT_DOUBLE_EQ(learning_rate(1, 10, 1.0, options), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(3, 10, 1.0, options), 0.75);
  EXPECT_DOUBLE_EQ(learning_rate(4, 10, 1.0, options), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(5, 10, 1.0, options), 1.0);
}

TEST(LearningRateTest, DecaysLinearlyToTheSmallestFactorAtTheLastStep) {
  const auto options = schedule(2, Decay::kLinear, 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(2, 12, 1.0, options), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(7, 12, 1.0, options), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(12, 12, 1.0, options), 0.1);
}

TEST(LearningRateTest, DecaysAlongACosineToTheSmallestFactorAtTheLastStep) {
  const auto options = schedule(0, Decay::kCosine, 0.2);
  EXPECT_NEAR(learning_rate(2, 8, 1.0, options), 0.2 + 0.8 * (1.0 + std::sqrt(0.5)) / 2.0, 1e-15);
  EXPECT_NEAR(learning_rate(4, 8, 1.0, options), 0.6, 1e-15);
  EXPECT_NEAR(learning_rate(8, 8, 1.0, options), 0.2, 1e-15);
}

TEST(LearningRateTest, AWarmUpMayBeAShareOfTheStepsRoundedUp) {
  auto options = schedule(0, Decay::kLinear, 0.0);
  options.warmup_ratio = 0.25;
  for (std::int64_t step = 1; step <= 10; ++step) {
    EXPECT_EQ(learning_rate(step, 10, 1.0, options),
              learning_rate(step, 10, 1.0, schedule(3, Decay::kLinear, 0.0)));
  }
  options.warmup_ratio = 1.0;
  EXPECT_DOUBLE_EQ(learning_rate(10, 10, 2.0, options), 2.0);
}

TEST(LearningRateTest, AllStepsMayBeWarmup) {
  EXPECT_DOUBLE_EQ(learning_rate(5, 5, 2.0, schedule(5, Decay::kLinear, 0.0)), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(5, 5, 2.0, schedule(10, Decay::kLinear, 0.0)), 1.0);
}

}  // namespace
}  // namespace sluice
