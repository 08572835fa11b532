#include "plan/fault.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sluice::test::fault_test {
namespace {

std::string refusal(const std::string& text) {
  return message_of([&] { parse_faults(text); });
}

TEST(FaultTest, HasAKindAndWhereItActs) {
  const std::vector<Fault> faults = parse_faults("kill:rank=1,step=3,instruction=12");
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, FaultKind::kKill);
  EXPECT_EQ(faults[0].rank, 1);
  EXPECT_EQ(faults[0].step, 3);
  EXPECT_EQ(faults[0].instruction, 12);
  EXPECT_EQ(to_text(faults[0]), "kill at rank 1, step 3, instruction 12");
}

TEST(FaultTest, SeveralAreSeparatedBySemicolons) {
  const std::vector<Fault> faults = parse_faults(
      "delay:ms=5,busy,times=3; throw:action=(0F1;1B0)OVERLAP_F_B,always;nan;stop:stage=2");
  ASSERT_EQ(faults.size(), 4u);
  EXPECT_EQ(to_text(faults[0]),
            "delay of 5 ms, computing, at the first instruction of every rank, 3 times");
  EXPECT_EQ(faults[1].action, "(0F1;1B0)OVERLAP_F_B");
  EXPECT_TRUE(faults[1].always);
  EXPECT_EQ(faults[2].kind, FaultKind::kNan);
  EXPECT_EQ(faults[3].stage, 2);
}

TEST(FaultTest, WhatIsLeftOutMatchesEverything) {
  const Fault any = parse_faults("throw").front();
  EXPECT_TRUE(any.matches(3, 9, 4, Action::forward(1, 2), Action::forward(1, 2)));
  const Fault one = parse_faults("throw:rank=3,step=9,instruction=4,stage=1,microbatch=2").front();
  const Action action = Action::forward(1, 2);
  EXPECT_TRUE(one.matches(3, 9, 4, action, action));
  EXPECT_FALSE(one.matches(2, 9, 4, action, action));
  EXPECT_FALSE(one.matches(3, 8, 4, action, action));
  EXPECT_FALSE(one.matches(3, 9, 5, action, action));
  EXPECT_FALSE(one.matches(3, 9, 4, Action::forward(0, 2), Action::forward(0, 2)));
  EXPECT_FALSE(one.matches(3, 9, 4, Action::forward(1, 1), Action::forward(1, 1)));
}

TEST(FaultTest, AnActionIsNamedAsInACsvOrByItsKind) {
  const Action send = Action::make(ActionKind::kSendForward, 1, 3);
  const auto meets = [&](const std::string& text, const Action& action) {
    return parse_faults("throw:action=" + text).front().matches(0, 1, 0, action, action);
  };
  EXPECT_TRUE(meets("1SEND_F3", send));
  EXPECT_TRUE(meets("SEND_F", send));
  EXPECT_FALSE(meets("1SEND_F2", send));
  EXPECT_FALSE(meets("RECV_F", send));
  EXPECT_TRUE(meets("REDUCE_LOSS", Action::make(ActionKind::kReduceLoss)));
  const Action pair = Action::overlap(Action::forward(0, 1), Action::backward(1, 0));
  const Fault half = parse_faults("throw:action=1B0").front();
  EXPECT_FALSE(half.matches(0, 1, 0, pair, pair.overlap_forward()));
  EXPECT_TRUE(half.matches(0, 1, 0, pair, pair.overlap_backward()));
  EXPECT_TRUE(meets("OVERLAP_F_B", pair));
}

TEST(FaultTest, NanAndCorruptMeetOnlyWhatHandsSomethingOn) {
  const Action forward = Action::forward(0, 0);
  const Action send = Action::make(ActionKind::kSendForward, 0, 0);
  const Fault nan = parse_faults("nan").front(), corrupt = parse_faults("corrupt").front();
  EXPECT_TRUE(nan.can_meet(forward));
  EXPECT_FALSE(nan.can_meet(send));
  EXPECT_FALSE(nan.can_meet(Action::backward_weight(0, 0)));
  EXPECT_TRUE(corrupt.can_meet(send));
  EXPECT_FALSE(corrupt.can_meet(forward));
  EXPECT_EQ(refusal("nan:action=1SEND_F0"),
            "'nan' does not act at action=1SEND_F0; SLUICE_FAULT; name an F, B or I, which hands "
            "values on");
  EXPECT_EQ(refusal("nan:action=REDUCE_LOSS").substr(0, 21), "'nan' does not act at");
  EXPECT_EQ(refusal("corrupt:action=F"),
            "'corrupt' does not act at action=F; SLUICE_FAULT; name a SEND_F or SEND_B, which "
            "hands a message over");
  EXPECT_EQ(parse_faults("corrupt:action=SEND_B").size(), 1u);
  EXPECT_EQ(parse_faults("nan:action=2I1").size(), 1u);
}

TEST(FaultTest, WhatIsMalformedIsNamedWithTheNearest) {
  EXPECT_EQ(refusal("kil:rank=1"), "unknown fault 'kil'; SLUICE_FAULT; did you mean 'kill'?");
  EXPECT_EQ(refusal("kill:rnk=1"), "unknown selector 'rnk'; SLUICE_FAULT; did you mean 'rank'?");
  EXPECT_EQ(refusal("kill:rank=x"),
            "'x' is not a value of 'rank'; SLUICE_FAULT; give a whole number from 0 to 2147483647");
  EXPECT_EQ(refusal("kill:step=0"),
            "'0' is not a value of 'step'; SLUICE_FAULT; give a whole number from 1 to 2147483647");
  EXPECT_EQ(refusal("kill:rank=1,rank=2"),
            "'rank' is given twice; SLUICE_FAULT; leave one of them");
  EXPECT_EQ(refusal("kill:rank"), "'rank' has no value; SLUICE_FAULT; write rank=VALUE");
  EXPECT_EQ(refusal("kill:always=1"), "'always' takes no value; SLUICE_FAULT; write always");
  EXPECT_EQ(refusal("nan:call=1"),
            "'call' does not apply to nan and corrupt; SLUICE_FAULT; leave it out");
  EXPECT_EQ(to_text(parse_faults("kill:action=F,call=3").front()), "kill at action F, call 3");
  EXPECT_EQ(refusal("kill:ms=5"), "'ms' applies to delay alone; SLUICE_FAULT; leave it out");
  EXPECT_EQ(refusal("kill:"), refusal("kill:,"));
  EXPECT_EQ(refusal("kill;").substr(0, 16), "a fault is empty");
  EXPECT_EQ(refusal("throw:action=1G0").substr(0, 22), "'1G0' is not an action");
  EXPECT_EQ(refusal("throw:action=").substr(0, 19), "'' is not an action");
  EXPECT_EQ(error_of([] { parse_faults("x"); }).kind(), ErrorKind::kUsage);
}

}  // namespace
}  // namespace sluice::test::fault_test
