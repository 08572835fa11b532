#include <gtest/gtest.h>

#include "plan/passes/passes.h"
#include "sluice/error.h"
#include "sluice/schedule.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"
#include "support/golden.h"

namespace sluice::schedule_golden_test {
namespace {

std::string picture(const std::string& name, const ScheduleShape& shape, bool color = false) {
  const Program program = lower(make_schedule(name, shape));
  require_verified(verify(program), name);
  return draw_grid(simulate(program), {.color = color, .width = 160});
}

TEST(ScheduleGoldenTest, DrawsEverySchedule) {
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, ScheduleShape>>{{"GPipe", {4, 1, 4}},
                                                          {"1F1B", {4, 1, 6}},
                                                          {"Interleaved1F1B", {2, 2, 4}},
                                                          {"LoopedBFS", {2, 2, 4}},
                                                          {"InterleavedZeroBubble", {4, 1, 6}},
                                                          {"ZBVZeroBubble", {2, 2, 3}},
                                                          {"DualPipeV", {2, 2, 4}}}) {
    testing::expect_golden("schedules/" + name + ".txt", picture(name, shape));
  }
}

TEST(ScheduleGoldenTest, DrawsWhatTorchRefuses) {
  testing::expect_golden("schedules/1F1B-fewer-microbatches-than-stages.txt",
                         picture("1F1B", {4, 1, 2}));
  testing::expect_golden("schedules/Interleaved1F1B-remainder.txt",
                         picture("Interleaved1F1B", {2, 2, 5}));
  testing::expect_golden("schedules/InterleavedZeroBubble-remainder.txt",
                         picture("InterleavedZeroBubble", {2, 2, 5}));
}

TEST(ScheduleGoldenTest, DrawsInColour) {
  testing::expect_golden("schedules/ZBVZeroBubble-colour.txt",
                         picture("ZBVZeroBubble", {2, 2, 3}, /*color=*/true));
}

TEST(ScheduleGoldenTest, DrawsABrokenScheduleWithArrows) {
  const Program program = to_program(parse_schedule_csv(
      "0F0,0SEND_F0,0B0,0F1,0RECV_B0\n1RECV_F0,1F0,1B0,1SEND_B0,1W0\n", "broken.csv"));
  testing::expect_golden("schedules/broken.txt", draw_violations(program, verify(program)));
}

// A remainder costs the same idle time as an even division: p - 1 forwards and backwards.
TEST(Interleaved1F1BTest, KeepsItsIdleTimeWithARemainder) {
  for (const int microbatches : {8, 9, 11, 13, 14, 19, 24}) {
    const Simulation simulation =
        simulate(lower(make_schedule("Interleaved1F1B", {4, 2, microbatches})));
    EXPECT_EQ(simulation.makespan, 3 * 2 * microbatches + 3 * (4 - 1)) << microbatches;
  }
}

TEST(InterleavedZeroBubbleTest, KeepsItsIdleTimeWithARemainder) {
  for (const int microbatches : {8, 9, 11, 13, 14, 19, 24}) {
    const Simulation simulation =
        simulate(lower(make_schedule("InterleavedZeroBubble", {4, 2, microbatches})));
    EXPECT_EQ(simulation.makespan, 3 * 2 * microbatches + (4 - 1)) << microbatches;
  }
}

}  // namespace
}  // namespace sluice::schedule_golden_test
