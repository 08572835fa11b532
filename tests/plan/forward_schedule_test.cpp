#include <gtest/gtest.h>

#include <algorithm>

#include "sluice/program.h"
#include "sluice/schedule.h"
#include "sluice/verify.h"

namespace sluice::test::forward_schedule_test {
namespace {

TEST(ForwardScheduleTest, RunsTheDeepestStageOfARankFirst) {
  const Schedule schedule = make_forward_schedule(make_stage_map(Placement::kV, 2, 4), 2);
  EXPECT_EQ(to_csv(schedule.rows), "0F0,0F1,3F0,3F1\r\n1F0,2F0,1F1,2F1\r\n");
}

TEST(ForwardScheduleTest, IsProvenForAnyNumberOfMicrobatchesAndAnyPlacement) {
  for (const std::vector<int>& ranks :
       {std::vector<int>{0}, {0, 1, 2}, {0, 1, 0, 1}, {1, 0, 0, 1}, {2, 0, 1, 1, 0, 2, 1}}) {
    const StageMap map(*std::max_element(ranks.begin(), ranks.end()) + 1, ranks);
    for (const int microbatches : {1, 2, 5, 16}) {
      const Program program =
          lower(make_forward_schedule(map, microbatches), {.forward_only = true});
      const VerifyReport report = verify(program);
      EXPECT_TRUE(report.ok()) << microbatches;
    }
  }
}

}  // namespace
}  // namespace sluice::test::forward_schedule_test
