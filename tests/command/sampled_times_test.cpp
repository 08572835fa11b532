// A single interruption of the process must not change a measured time.
#include "command/instruction_times.h"

#include <gtest/gtest.h>

#include "plan/predict/layer_times.h"

namespace sluice {
namespace {

constexpr double kMs = 1e-3;

SampledTimes steady() {
  return {.forward = {2 * kMs, 2.1 * kMs, 2 * kMs, 2.05 * kMs},
          .backward_input = {2 * kMs, 2.1 * kMs},
          .backward_weight = {1.5 * kMs, 1.6 * kMs},
          .backward = {3.4 * kMs, 3.5 * kMs}};
}

TEST(SampledTimesTest, OneSampleAThousandTimesItsKindDecidesNothing) {
  for (std::vector<double> SampledTimes::*part :
       {&SampledTimes::forward, &SampledTimes::backward_input, &SampledTimes::backward_weight,
        &SampledTimes::backward}) {
    SampledTimes samples = steady();
    const LayerTime before = typical_times(samples);
    (samples.*part).front() *= 1000;
    const LayerTime after = typical_times(samples);
    EXPECT_NEAR(after.forward, before.forward, 0.1 * before.forward);
    EXPECT_NEAR(after.backward_input, before.backward_input, 0.1 * before.backward_input);
    EXPECT_NEAR(after.backward_weight, before.backward_weight, 0.1 * before.backward_weight);
    EXPECT_NEAR(after.backward, before.backward, 0.1 * before.backward);
  }
}

TEST(SampledTimesTest, TheLowerQuartileOfManySamplesCountsAndTheShortestOfFew) {
  EXPECT_EQ(typical_time({}), 0);
  EXPECT_EQ(typical_time({3}), 3);
  EXPECT_EQ(typical_time({9, 3, 5}), 3);
  EXPECT_EQ(typical_time({9, 3, 5, 4}), 4);
  EXPECT_EQ(typical_time({80, 70, 1, 4, 4, 90, 60, 4}), 4);
}

TEST(SampledTimesTest, ACastIsWhatAForwardThatCastsTakesMoreThanOthers) {
  SampledTimes samples = steady();
  EXPECT_EQ(typical_times(samples).cast, 0);
  samples.casting_forward = {3.5 * kMs, 3 * kMs};
  EXPECT_NEAR(typical_times(samples).cast, 1 * kMs, 0.1 * kMs);
  samples.casting_forward = {1.9 * kMs, 1.9 * kMs};
  EXPECT_EQ(typical_times(samples).cast, 0);
}

TEST(SampledTimesTest, SamplesThatAgreeAreEnough) { EXPECT_FALSE(needs_more_samples(steady())); }

TEST(SampledTimesTest, SamplesThatContradictEachOtherNeedMore) {
  SampledTimes alone = steady();
  alone.forward = {2 * kMs};
  EXPECT_TRUE(needs_more_samples(alone));
  SampledTimes interrupted = steady();
  interrupted.backward = {3.4 * kMs, 39 * kMs};
  EXPECT_TRUE(needs_more_samples(interrupted));
  SampledTimes half_above_whole = steady();
  half_above_whole.backward_weight = {39 * kMs, 39 * kMs};
  EXPECT_TRUE(needs_more_samples(half_above_whole));
  SampledTimes halves_above_whole = steady();
  halves_above_whole.backward = {1.7 * kMs, 1.7 * kMs};
  EXPECT_TRUE(needs_more_samples(halves_above_whole));
  SampledTimes whole_above_halves = steady();
  whole_above_halves.backward = {6 * kMs, 6 * kMs};
  EXPECT_TRUE(needs_more_samples(whole_above_halves));
}

TEST(SampledTimesTest, WhatAClockCanNotTellNeedsNoMore) {
  SampledTimes embedding = {.forward = {3e-6, 9e-6},
                            .backward_input = {0, 1e-6},
                            .backward_weight = {8e-6, 20e-6},
                            .backward = {7e-6, 9e-6}};
  EXPECT_FALSE(needs_more_samples(embedding));
  embedding.backward_weight = {39 * kMs, 8e-6};
  EXPECT_TRUE(needs_more_samples(embedding));
}

TEST(SampledTimesTest, AStageWithoutWeightsToTrainDoesInBWhatItDoesInI) {
  SampledTimes frozen = steady();
  frozen.backward_weight.clear();
  frozen.backward.clear();
  EXPECT_FALSE(needs_more_samples(frozen));
  const LayerTime time = typical_times(frozen);
  EXPECT_EQ(time.backward, time.backward_input);
  EXPECT_GT(time.backward, 0);
}

TEST(SampledTimesTest, AWholeTakesNoLongerThanItsHalvesAndNoHalfLongerThanTheWhole) {
  LayerTime time;
  time.backward_input = 1;
  time.backward_weight = 3;
  time.backward = 2.5;
  settle(time);
  EXPECT_EQ(time.backward, 2.5);
  EXPECT_EQ(time.backward_weight, 2.5);
  time.backward = 7;
  settle(time);
  EXPECT_EQ(time.backward, 3.5);
}

}  // namespace
}  // namespace sluice
