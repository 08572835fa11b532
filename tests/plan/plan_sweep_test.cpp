// Every schedule at every size either is rejected with a reason, or builds, lowers, verifies and
// completes. By default a seeded sample runs; the label `slow` runs all sizes.
#include <gtest/gtest.h>

#include "sluice/error.h"
#include "sluice/program.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"
#include "support/programs.h"

namespace sluice::plan_sweep_test {
namespace {

using testing::chance;
using testing::pick;

constexpr int kMaxRanks = 16, kMaxStagesPerRank = 4, kMaxMicrobatches = 64;

LowerOptions options_at_random(std::mt19937& random) {
  LowerOptions options;
  options.shard_parameters = chance(random, 70);
  options.max_active_stages = pick(random, 1, 4);
  options.reduce_gradients = chance(random, 70);
  options.defer_receives = chance(random, 30);
  options.merge_backward = chance(random, 20);
  options.forward_only = chance(random, 10);
  options.optimizer_step = options.norm = chance(random, 50);
  options.partial_norms = chance(random, 50);
  options.update_by_stage = chance(random, 50);
  return options;
}

class PlanSweep {
 public:
  void check(const ScheduleInfo& info, const ScheduleShape& shape, const LowerOptions& options) {
    const std::string subject = info.name + " " + std::to_string(shape.num_ranks) + " x " +
                                std::to_string(shape.stages_per_rank) + " x " +
                                std::to_string(shape.num_microbatches);
    Schedule schedule;
    try {
      schedule = make_schedule(info.name, shape);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << subject;
      EXPECT_FALSE(error.fact().empty()) << subject;
      ++refused_;
      return;
    }
    ++made_;
    const Program program = lower(schedule, options);
    const VerifyReport report = verify(program);
    ASSERT_TRUE(report.ok()) << subject << ": " << report.violations.front().reason;
    EXPECT_LE(report.required_capacity, report.max_in_flight) << subject;
    EXPECT_LE(report.required_capacity, 1) << subject;

    const Simulation simulation = simulate(program);
    const double work = (options.forward_only ? 1.0 : 3.0) * shape.num_microbatches *
                        schedule.num_stages() / schedule.num_ranks();
    for (const RankTimeline& rank : simulation.ranks) {
      EXPECT_EQ(rank.busy, work) << subject;
      const std::vector<int>& live = rank.live;
      EXPECT_EQ(live.back(), options.forward_only ? work : 0) << subject;
    }
  }

  int made() const { return made_; }
  int refused() const { return refused_; }

 private:
  int made_ = 0, refused_ = 0;
};

TEST(PlanSweepTest, TwoThousandSizesVerifyCleanOrAreRefused) {
  std::mt19937 random(20130408);
  PlanSweep sweep;
  const std::vector<ScheduleInfo>& table = schedule_table();
  for (int sample = 0; sample < 2000; ++sample) {
    const ScheduleInfo& info = table[pick(random, 0, static_cast<int>(table.size()) - 1)];
    const ScheduleShape shape = {pick(random, 1, kMaxRanks), pick(random, 1, kMaxStagesPerRank),
                                 pick(random, 1, kMaxMicrobatches)};
    sweep.check(info, shape, options_at_random(random));
  }
  EXPECT_GT(sweep.made(), 1000);
  EXPECT_GT(sweep.refused(), 100);
}

TEST(PlanSweepSlowTest, AllSizesVerifyCleanOrAreRefused) {
  std::mt19937 random(1);
  PlanSweep sweep;
  for (const ScheduleInfo& info : schedule_table()) {
    for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
      for (int stages = 1; stages <= kMaxStagesPerRank; ++stages) {
        for (int microbatches = 1; microbatches <= kMaxMicrobatches; ++microbatches) {
          sweep.check(info, {ranks, stages, microbatches}, options_at_random(random));
        }
      }
    }
  }
  EXPECT_EQ(sweep.made() + sweep.refused(), static_cast<int>(schedule_table().size()) * kMaxRanks *
                                                kMaxStagesPerRank * kMaxMicrobatches);
}

}  // namespace
}  // namespace sluice::plan_sweep_test
