#include "report/hang_judge.h"

#include <gtest/gtest.h>

#include <chrono>

namespace sluice::test {
namespace {

using std::chrono::milliseconds;

HangLimits hang_limits_of_test() {
  HangLimits limits;
  limits.named = milliseconds(2000);
  limits.ended = milliseconds(10'000);
  limits.floor = milliseconds(30'000);
  limits.ended_unknown = milliseconds(60'000);
  return limits;
}

RunningAction running_at(std::int64_t pass, int index) {
  return {pass, pass, index, Action::forward(1, 0)};
}

TEST(HangJudgeTest, NamesARankThatIsLongerInAnInstructionThanItsKindEverTook) {
  HangJudge judge(hang_limits_of_test());
  judge.learn(Action::forward(1, 3), 0.5);
  judge.learn(Action::forward(1, 2), 0.1);
  EXPECT_EQ(judge.look(running_at(3, 7), milliseconds(1000)), HangVerdict::kNone);
  EXPECT_EQ(judge.look(running_at(3, 7), milliseconds(3500)), HangVerdict::kNone);
  EXPECT_EQ(judge.look(running_at(3, 7), milliseconds(3501)), HangVerdict::kHangs);
  EXPECT_EQ(judge.stay(), milliseconds(2501));
  EXPECT_EQ(judge.expected(), milliseconds(500));
  EXPECT_EQ(judge.look(running_at(3, 7), milliseconds(9000)), HangVerdict::kNone) << "once";
  EXPECT_EQ(judge.look(running_at(3, 7), milliseconds(11'501)), HangVerdict::kIsOver);
  EXPECT_EQ(judge.look(running_at(3, 7), milliseconds(20'000)), HangVerdict::kNone) << "once";
}

TEST(HangJudgeTest, GivesTheFirstOfAKindTheFloor) {
  HangJudge judge(hang_limits_of_test());
  judge.learn(Action::forward(2, 0), 0.5);
  judge.look(running_at(1, 0), milliseconds(0));
  EXPECT_EQ(judge.look(running_at(1, 0), milliseconds(32'000)), HangVerdict::kNone);
  EXPECT_EQ(judge.look(running_at(1, 0), milliseconds(32'001)), HangVerdict::kHangs);
  EXPECT_EQ(judge.expected(), std::nullopt);
  EXPECT_EQ(judge.look(running_at(1, 0), milliseconds(60'000)), HangVerdict::kNone);
  EXPECT_EQ(judge.look(running_at(1, 0), milliseconds(60'001)), HangVerdict::kIsOver);
}

TEST(HangJudgeTest, WhoWaitsOrGoesOnBeginsAnew) {
  HangJudge judge(hang_limits_of_test());
  judge.learn(Action::forward(1, 0), 0);
  judge.look(running_at(1, 0), milliseconds(0));
  EXPECT_EQ(judge.look(std::nullopt, milliseconds(5000)), HangVerdict::kNone);
  EXPECT_EQ(judge.look(running_at(1, 0), milliseconds(5000)), HangVerdict::kNone) << "after a wait";
  EXPECT_EQ(judge.look(running_at(1, 1), milliseconds(7001)), HangVerdict::kNone) << "the next one";
  EXPECT_EQ(judge.look(running_at(2, 1), milliseconds(9002)), HangVerdict::kNone)
      << "of the next step";
  EXPECT_EQ(judge.look(running_at(2, 1), milliseconds(11'003)), HangVerdict::kHangs);
}

}  // namespace
}  // namespace sluice::test
