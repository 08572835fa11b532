#include "sluice/parts/action.h"

#include <gtest/gtest.h>

#include "plan/action_kinds.h"
#include "sluice/error.h"

namespace sluice::action_test {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_action(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(ActionTest, ParsesWhatItWritesForEveryKind) {
  for (const std::string text : {"0F0",
                                 "12B345",
                                 "1I2",
                                 "1W2",
                                 "1SEND_F3",
                                 "2RECV_F3",
                                 "2SEND_B3",
                                 "1RECV_B3",
                                 "0UNSHARD",
                                 "3RESHARD",
                                 "0REDUCE_GRAD",
                                 "0REDUCE_GRAD3",
                                 "0REDUCE_TIED",
                                 "REDUCE_LOSS",
                                 "GATHER_OUTPUTS",
                                 "REDUCE_NORM",
                                 "OPTIMIZER_STEP",
                                 "0PARTIAL_NORM",
                                 "12UPDATE",
                                 "(0F7;7B3)OVERLAP_F_B",
                                 "(4F1;3I0)OVERLAP_F_B",
                                 "2147483647F2147483647"}) {
    EXPECT_EQ(to_text(parse_action(text)), text);
    EXPECT_EQ(parse_action(to_text(parse_action(text))), parse_action(text));
  }
}

TEST(ActionTest, ReadsTheFieldsOfAPair) {
  const Action pair = parse_action("( 0F7 ; 7B3 )OVERLAP_F_B");
  EXPECT_EQ(pair, Action::overlap(Action::forward(0, 7), Action::backward(7, 3)));
  EXPECT_EQ(pair.overlap_forward(), Action::forward(0, 7));
  EXPECT_EQ(pair.overlap_backward(), Action::backward(7, 3));
}

TEST(ActionTest, AReductionOfTiedWeightsNamesItsGroupAndNoStage) {
  const Action action = parse_action("7REDUCE_TIED");
  EXPECT_EQ(action, Action::reduce_tied(7));
  EXPECT_EQ(action.group, 7);
  EXPECT_EQ(parse_action("32767REDUCE_TIED").group, Action::kMaxGroup);
  EXPECT_NE(refusal("32768REDUCE_TIED").find("tie groups go up to 32767"), std::string::npos);
  EXPECT_LE(sizeof(Action), 20u);
  EXPECT_EQ(action.stage, -1);
  EXPECT_NE(refusal("REDUCE_TIED").find("no tie group before 'REDUCE_TIED'"), std::string::npos);
}

TEST(ActionTest, SaysWhichAxesItSpans) {
  const auto axes = [](const char* text) { return axes_of(parse_action(text).kind); };
  for (const char* text : {"0F0", "0B0", "0I0", "0W0", "(0F7;7B3)OVERLAP_F_B", "OPTIMIZER_STEP"}) {
    EXPECT_TRUE(axes(text).empty()) << text;
  }
  for (const char* text :
       {"0SEND_F0", "1RECV_F0", "1SEND_B0", "0RECV_B0", "0REDUCE_TIED", "GATHER_OUTPUTS"}) {
    EXPECT_EQ(axes(text), AxisSet{Axis::kPp}) << text;
  }
  EXPECT_EQ(axes("0UNSHARD"), AxisSet{Axis::kDpShard});
  EXPECT_EQ(axes("0RESHARD"), AxisSet{Axis::kDpShard});
  EXPECT_EQ(axes("0REDUCE_GRAD"), (AxisSet{Axis::kDpReplicate, Axis::kDpShard}));
  for (const char* text : {"REDUCE_LOSS", "REDUCE_NORM"}) {
    for (const Axis axis : {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp}) {
      EXPECT_TRUE(axes(text).has(axis)) << text;
    }
  }
}

TEST(ActionTest, TakesSurroundingSpaceAndReadsBlankAsIdle) {
  EXPECT_EQ(parse_action("  3F1 "), Action::forward(3, 1));
  EXPECT_EQ(parse_action(""), Action());
  EXPECT_EQ(parse_action("   "), Action());
  EXPECT_EQ(to_text(Action()), "");
}

TEST(ActionTest, RefusesTextThatIsIncompleteOrTrailing) {
  for (const char* text : {"0F",
                           "F0",
                           "7",
                           "1F0junk",
                           "1F0 2",
                           "0f0",
                           "0 F 0",
                           "-1F0",
                           "+1F0",
                           "0F-1",
                           "0X0",
                           "0FF0",
                           "0UNSHARD3",
                           "UNSHARD",
                           "0RECV_B",
                           "REDUCE_NORM0",
                           "REDUCE_GRAD0",
                           "GATHER_OUTPUTS0",
                           "0REDUCE_LOSS",
                           "0OPTIMIZER_STEP",
                           "PARTIAL_NORM",
                           "0PARTIAL_NORM1",
                           "UPDATE",
                           "0UPDATE1",
                           "0OVERLAP_F_B",
                           "2147483648F0",
                           "0F99999999999999999999",
                           "(",
                           "()",
                           "()OVERLAP_F_B",
                           "(0F0)OVERLAP_F_B",
                           "(0F0;1B0",
                           "(0F0;1B0)",
                           "(0F0;1B0)F",
                           "(0F0;1B0)OVERLAP_F_B2",
                           "(0F0;1B0;2B0)OVERLAP_F_B",
                           "(1B0;0F0)OVERLAP_F_B",
                           "(0F0;1W0)OVERLAP_F_B",
                           "(0F0;)OVERLAP_F_B",
                           "((0F0;1B0)OVERLAP_F_B;1B0)OVERLAP_F_B"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
}

TEST(ActionTest, RefusalsSayWhatIsWrong) {
  EXPECT_NE(refusal("1F0junk").find("'1F0junk' is not an action: 'junk' follows the action"),
            std::string::npos);
  EXPECT_NE(refusal("0F").find("no microbatch after 'F'"), std::string::npos);
  EXPECT_NE(refusal("0OVERLAP_F_B").find("needs its pair"), std::string::npos);
  EXPECT_LT(refusal(std::string(1 << 20, 'x')).size(), 400u);
}

}  // namespace
}  // namespace sluice::action_test
