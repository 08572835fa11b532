#include "sluice/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/passes/passes.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/programs.h"

namespace sluice::verify_test {
namespace {

using test::error_of;
using testing::program_of;
using testing::row_of;
using Rows = std::vector<std::string>;

struct Found {
  int rank, index;
  std::string action, reason;
};

void expect_found(const Program& program, const std::vector<Found>& expected) {
  const VerifyReport report = verify(program);
  std::string listing;
  for (const Violation& v : report.violations) {
    listing += std::to_string(v.rank) + ", " + std::to_string(v.index) + " '" + v.action +
               "': " + v.reason + "\n";
  }
  ASSERT_EQ(report.violations.size(), expected.size()) << listing;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(report.violations[i].rank, expected[i].rank) << listing;
    EXPECT_EQ(report.violations[i].index, expected[i].index) << listing;
    EXPECT_EQ(report.violations[i].action, expected[i].action) << listing;
    EXPECT_NE(report.violations[i].reason.find(expected[i].reason), std::string::npos) << listing;
  }
}

const Rows kTwoRanks = {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                        "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"};

Program with_row(int rank, const std::string& row) {
  Rows rows = kTwoRanks;
  rows[rank] = row;
  Program program = program_of(rows, {0, 1});
  program.num_microbatches = 2;
  return program;
}

TEST(VerifyTest, AcceptsOneForwardOneBackward) {
  const VerifyReport report = verify(program_of(kTwoRanks));
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.required_capacity, 1);
  EXPECT_EQ(report.max_in_flight, 2);
  EXPECT_NO_THROW(require_verified(report, "1F1B"));
}

TEST(VerifyTest, NeedsNoCapacityWhenNothingIsSent) {
  const VerifyReport report = verify(program_of({"0F0,1F0,1B0,0B0"}));
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.required_capacity, 0);
  EXPECT_EQ(report.max_in_flight, 0);
}

TEST(VerifyTest, AcceptsAComputeOrderWithoutTransfers) {
  EXPECT_TRUE(verify(program_of({"0F0,0F1,0I0,0I1,0W0,0W1", "1F0,1B0,1F1,1B1"})).ok());
}

TEST(VerifyTest, RejectsABackwardOfWhatIsFrozenAndAMissingOneOfWhatIsNot) {
  using enum StageBackward;
  const auto with = [](const Rows& rows, std::vector<StageBackward> backwards) {
    Program program = program_of(rows, {0, 1});
    program.backwards = std::move(backwards);
    return program;
  };
  const Rows lower_frozen = {"0F0,0SEND_F0", "1RECV_F0,1F0,1B0"};
  expect_found(with(lower_frozen, {kNone, kWeights}), {});
  expect_found(with({lower_frozen[0], "1RECV_F0,1F0"}, {kNone, kWeights}),
               {{1, -1, "1B0", "never runs backward"}});
  expect_found(with({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, {kNone, kWeights}),
               {{0, 2, "0RECV_B0", "nothing up to stage 0 is trained"},
                {0, 3, "0B0", "nothing up to stage 0 is trained"},
                {1, 3, "1SEND_B0", "nothing below stage 1 is trained"}});
  const Rows upper_frozen = {"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1I0,1SEND_B0"};
  expect_found(with(upper_frozen, {kFull, kInput}), {});
  expect_found(with({upper_frozen[0], "1RECV_F0,1F0,1I0,1SEND_B0,1W0"}, {kFull, kInput}),
               {{1, 4, "1W0", "nothing of stage 1 is trained"}});
  expect_found(with(lower_frozen, {kFull, kWeights}),
               {{0, -1, "", "stage 0 has a backward, but stage 1 hands it no gradient"},
                {0, -1, "0B0", "never runs backward"}});
  expect_found(with(lower_frozen, {kNone}), {{-1, -1, "", "of 2"}});
}

TEST(VerifyTest, RejectsAForwardThatNeverRuns) {
  expect_found(program_of({"0F0,0B0,0B1", "1F0,1F1,1B0,1B1"}),
               {{0, -1, "0F1", "microbatch 1 never runs forward on stage 0"}});
}

TEST(VerifyTest, SummarizesARunOfMissingMicrobatches) {
  expect_found(program_of({"0F0,0F9,0B0,0B9"}),
               {{0, -1, "0F1", "microbatches 1 to 8 never run forward on stage 0"},
                {0, -1, "0B1", "microbatches 1 to 8 never run backward on stage 0"}});
}

TEST(VerifyTest, StaysSmallForAFarMicrobatch) {
  Program program = program_of({"0F0,0B0"});
  program.num_microbatches = 2000000000;
  expect_found(program, {{0, -1, "0F1", "microbatches 1 to 1999999999 never run forward"},
                         {0, -1, "0B1", "microbatches 1 to 1999999999 never run backward"}});
}

TEST(VerifyTest, RejectsASecondBackward) {
  expect_found(program_of({"0F0,0F1,0B0,0B0,0B1", "1F0,1B0,1F1,1B1"}),
               {{0, 3, "0B0", "runs a second time"}});
}

TEST(VerifyTest, RejectsAWholeBackwardAfterItsHalves) {
  expect_found(program_of({"0F0,0F1,0I0,0I1,0W0,0W1,0B1", "1F0,1B0,1F1,1B1"}),
               {{0, 6, "0B1", "repeats the backward of '0I1'"}});
}

TEST(VerifyTest, RejectsInputWithoutWeightAndWeightWithoutInput) {
  expect_found(program_of({"0F0,0F1,0I0,0W1"}),
               {{0, -1, "0W0", "though '0I0' does"}, {0, 3, "0W1", "runs without '0I1'"}});
}

TEST(VerifyTest, RejectsABackwardBeforeItsForward) {
  expect_found(program_of({"0B0,0F0"}), {{0, 0, "0B0", "needs '0F0' above it"}});
}

TEST(VerifyTest, RejectsAWeightGradientBeforeItsInputGradient) {
  expect_found(program_of({"0F0,0W0,0I0"}), {{0, 1, "0W0", "needs '0I0' above it"}});
}

TEST(VerifyTest, RejectsANeighbourOnTheSameRankThatComesLater) {
  expect_found(program_of({"1F0,0F0,1B0,0B0"}), {{0, 0, "1F0", "needs '0F0' above it"}});
}

TEST(VerifyTest, RejectsAPairWhoseHalvesNeedEachOther) {
  expect_found(
      program_of({"(0F0;0B0)OVERLAP_F_B"}),
      {{0, 0, "(0F0;0B0)OVERLAP_F_B", "one half of the pair needs the result of the other"}});
}

TEST(VerifyTest, RejectsAnActionOnARankThatDoesNotOwnItsStage) {
  expect_found(program_of({"0F0,1F0,0B0", "1B0"}, {0, 1}),
               {{0, 1, "1F0", "stage 1 lives on rank 1"}});
}

TEST(VerifyTest, RejectsStagesAndMicrobatchesOutOfRange) {
  Program program = program_of({"0F0,0B0"});
  program.ranks[0].push_back(Action::forward(1, 0));
  program.ranks[0].push_back(Action::backward(0, 7));
  program.ranks[0].push_back(Action());
  program.ranks[0].push_back(Action::reduce_tied(3));
  expect_found(program, {{0, 2, "1F0", "the program has 1 stage"},
                         {0, 3, "0B7", "the program has 1 microbatch"},
                         {0, 4, "", "an idle slot is not an instruction"},
                         {0, 5, "3REDUCE_TIED", "0 groups of tied parameters"}});
}

TEST(VerifyTest, RejectsARankWithoutARow) {
  expect_found(program_of({"0F0,0B0", ""}, {0, 1}),
               {{1, -1, "", "owns stage 1 and has no instruction"}});
}

TEST(VerifyTest, RejectsAStageThatNeverRunsOrLivesNowhere) {
  expect_found(program_of({"0F0,0B0"}, {0, 0}), {{0, -1, "", "owns stage 1 and never runs it"}});
  expect_found(program_of({"0F0,3F0,3B0,0B0"}),
               {{-1, -1, "", "stages 1 to 2 live on no rank of the program"}});
}

TEST(VerifyTest, RejectsSizesThatDisagree) {
  Program program = program_of({"0F0,0B0"});
  program.stage_map = StageMap(2, {0});
  expect_found(program, {{-1, -1, "", "1 rows for 2 ranks"}});
  program = program_of({"0F0,0B0"});
  program.stage_map = StageMap(1, {0, 0, 0});
  expect_found(program, {{-1, -1, "", "the flow does not match 3 stages"}});
  expect_found(Program(), {{-1, -1, "", "at least one rank"}});
  program = program_of({"0F0,0B0"});
  program.stage_map = StageMap(1, {77});
  EXPECT_FALSE(verify(program).ok());
}

TEST(VerifyTest, RejectsRecvWithoutMatchingSend) {
  expect_found(with_row(0, "0F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1"),
               {{1, 0, "1RECV_F0", "no '0SEND_F0' on rank 0 sends what this waits for"}});
}

TEST(VerifyTest, RejectsSendWithoutMatchingRecv) {
  expect_found(with_row(1, "1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"),
               {{0, 1, "0SEND_F0", "no '1RECV_F0' on rank 1 takes this message"},
                {1, 0, "1F0", "its input is never received: no '1RECV_F0'"}});
}

TEST(VerifyTest, RejectsASendBeforeItsResult) {
  expect_found(with_row(1, "1RECV_F0,1F0,1SEND_B0,1B0,1RECV_F1,1F1,1B1,1SEND_B1"),
               {{1, 2, "1SEND_B0", "needs '1B0' above it"}});
}

TEST(VerifyTest, RejectsARecvBelowItsUse) {
  expect_found(with_row(1, "1F0,1RECV_F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"),
               {{1, 0, "1F0", "needs '1RECV_F0' above it"}});
}

TEST(VerifyTest, RejectsTransfersThatGoNowhere) {
  expect_found(program_of({"0RECV_F0,0F0,0SEND_F0,1RECV_F0,1F0,1SEND_F0,1B0,0B0,0SEND_B0"}),
               {{0, 0, "0RECV_F0", "there is no stage before stage 0"},
                {0, 2, "0SEND_F0", "stages 0 and 1 live on one rank"},
                {0, 3, "1RECV_F0", "stages 1 and 0 live on one rank"},
                {0, 5, "1SEND_F0", "there is no stage behind stage 1"},
                {0, 8, "0SEND_B0", "there is no stage before stage 0"}});
}

TEST(VerifyTest, RejectsAChannelWhoseEndsDisagreeAndNamesTheFewestReceives) {
  expect_found(
      program_of({"0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3",
                  "1RECV_F3,1F3,1RECV_F0,1F0,1RECV_F1,1F1,1RECV_F2,1F2"}),
      {{0, -1, "0B0", "microbatches 0 to 3 never run backward"},
       {1, -1, "1B0", "microbatches 0 to 3 never run backward"},
       {1, 0, "1RECV_F3", "out of order on the channel from rank 0, where it is '0SEND_F3'"}});
}

TEST(VerifyTest, RejectsADeadlockAndNamesEveryRankOfTheCircle) {
  expect_found(program_of({"0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0,0RECV_B1,0B1",
                           "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1"}),
               {{0, 2, "0RECV_B0",
                 "waits for '1SEND_B0' of rank 1, which is stuck before it "
                 "at '1RECV_F1'"},
                {1, 2, "1RECV_F1", "waits for '0SEND_F1' of rank 0"}});
}

TEST(VerifyTest, RejectsADeadlockOfAComputeOrder) {
  expect_found(
      program_of({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"}),
      {{0, 1, "0B0", "deadlock: waits for '1B0'"}, {1, 1, "1F1", "deadlock: waits for '0F1'"}});
}

TEST(VerifyTest, LeavesOutRanksThatOnlyWaitForADeadlock) {
  expect_found(program_of({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1", "2F0,2B0,2F1,2B1"}),
               {{0, 1, "0B0", "deadlock"}, {1, 1, "1F1", "deadlock"}});
}

TEST(VerifyTest, ChecksGatheredParametersOnlyWhereTheProgramGathers) {
  expect_found(program_of({"0UNSHARD,0F0,0RESHARD,0F1,0B0,0B1,0RESHARD"}),
               {{0, 3, "0F1", "stage 0 is not gathered: no '0UNSHARD' since it was dropped"}});
  expect_found(program_of({"0UNSHARD,0F0,0UNSHARD,0B0,0RESHARD"}),
               {{0, 2, "0UNSHARD", "gathered already, by '0UNSHARD'"}});
  expect_found(program_of({"0UNSHARD,0F0,0B0"}),
               {{0, 0, "0UNSHARD", "no '0RESHARD' drops it again"}});
  expect_found(program_of({"0UNSHARD,0F0,0B0,0RESHARD,0RESHARD"}),
               {{0, 4, "0RESHARD", "not gathered"}});
}

TEST(VerifyTest, ChecksGradientReductions) {
  expect_found(program_of({"0F0,0REDUCE_GRAD,0B0"}), {{0, 1, "0REDUCE_GRAD", "runs before '0B0'"}});
  expect_found(program_of({"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD"}),
               {{0, 3, "0REDUCE_GRAD", "a second time"}});
  expect_found(program_of({"0F0,1F0,1B0,0B0,1REDUCE_GRAD"}),
               {{0, -1, "0REDUCE_GRAD", "never runs on this rank"}});
}

TEST(VerifyTest, ChecksTiedReductions) {
  const Program program = add_tied_reductions(program_of({"0F0,0B0", "1F0,1B0"}), {{"t", {0, 1}}});
  EXPECT_TRUE(verify(program).ok());
  Program changed = program;
  changed.ranks[1].pop_back();
  expect_found(changed, {{1, -1, "0REDUCE_TIED", "never runs on this rank"}});
  changed = program;
  std::swap(changed.ranks[1][1], changed.ranks[1][2]);
  expect_found(changed, {{0, 1, "0B0", "deadlock: waits for '1B0'"},
                         {1, 1, "0REDUCE_TIED", "runs before '1B0'"},
                         {1, 1, "0REDUCE_TIED", "deadlock: waits for '0REDUCE_TIED'"}});
}

TEST(VerifyTest, RejectsTiedReductionsInAnotherOrderAsADeadlock) {
  Program program =
      add_tied_reductions(program_of({"0F0,0B0", "1F0,1B0"}), {{"a", {0, 1}}, {"b", {0, 1}}});
  EXPECT_TRUE(verify(program).ok());
  std::swap(program.ranks[1][2], program.ranks[1][3]);
  expect_found(program, {{0, 2, "0REDUCE_TIED", "deadlock"}, {1, 2, "1REDUCE_TIED", "deadlock"}});
}

TEST(VerifyTest, ChecksWhereAStagesNormAndUpdateStand) {
  const auto rows = [](const char* first) {
    return program_of({first, "1F0,1B0,1PARTIAL_NORM,REDUCE_NORM,1UPDATE"});
  };
  EXPECT_TRUE(verify(rows("0F0,0B0,0PARTIAL_NORM,REDUCE_NORM,0UPDATE")).ok());
  // REDUCE_NORM computes the missing partial norm
  EXPECT_TRUE(verify(rows("0F0,0B0,REDUCE_NORM,0UPDATE")).ok());
  EXPECT_TRUE(verify(rows("0F0,0B0,REDUCE_NORM,OPTIMIZER_STEP")).ok());
  EXPECT_TRUE(verify(rows("0F0,0B0,REDUCE_NORM,0UPDATE,OPTIMIZER_STEP")).ok());
  expect_found(rows("0F0,0PARTIAL_NORM,0B0,REDUCE_NORM,0UPDATE"),
               {{0, 1, "0PARTIAL_NORM", "runs before '0B0'"}});
  expect_found(rows("0F0,0B0,REDUCE_NORM,0PARTIAL_NORM,0UPDATE"),
               {{0, 2, "REDUCE_NORM", "runs before '0PARTIAL_NORM'"}});
  expect_found(rows("0F0,0B0,0PARTIAL_NORM,0PARTIAL_NORM,REDUCE_NORM,0UPDATE"),
               {{0, 3, "0PARTIAL_NORM", "runs a second time"}});
  expect_found(rows("0F0,0B0,0UPDATE,REDUCE_NORM"),
               {{0, 2, "0UPDATE", "runs before 'REDUCE_NORM'"}});
  expect_found(rows("0F0,0B0,REDUCE_NORM"), {{0, -1, "0UPDATE", "never runs on this rank"}});
  expect_found(rows("0F0,0B0,REDUCE_NORM,0UPDATE,0UPDATE"),
               {{0, 4, "0UPDATE", "runs a second time"}});
  expect_found(rows("0F0,0B0,REDUCE_NORM,OPTIMIZER_STEP,0UPDATE"),
               {{0, 3, "OPTIMIZER_STEP", "runs before '0UPDATE'"}});
  Program elsewhere = rows("0F0,0B0,REDUCE_NORM,0UPDATE");
  elsewhere.ranks[0].push_back(Action::make(ActionKind::kUpdate, 1));
  expect_found(elsewhere, {{0, 4, "1UPDATE", "stage 1 lives on rank 1"}});
  expect_found(program_of({"0F0,0B0,0PARTIAL_NORM"}),
               {{0, 2, "0PARTIAL_NORM", "no 'REDUCE_NORM' of this rank uses it"}});
  Program frozen = program_of({"0F0,REDUCE_NORM,0UPDATE", "1F0,1B0,REDUCE_NORM,1UPDATE"});
  frozen.backwards = {StageBackward::kNone, StageBackward::kWeights};
  expect_found(frozen, {{0, 2, "0UPDATE", "nothing up to stage 0 is trained"}});
  Program replicas = program_of({"0F0,0B0,REDUCE_NORM,0UPDATE"});
  replicas.mesh = Mesh({.dp_replicate = 2});
  expect_found(replicas, {{0, -1, "0REDUCE_GRAD", "never runs"}});
}

TEST(VerifyTest, ChecksTheEndOfTheStep) {
  const Program program = add_optimizer_step(program_of({"0F0,0B0", "1F0,1B0"}), true);
  EXPECT_TRUE(verify(program).ok());
  Program changed = program;
  changed.ranks[0].pop_back();
  expect_found(changed, {{0, -1, "OPTIMIZER_STEP", "never runs on this rank"}});
  changed = program;
  std::swap(changed.ranks[0][2], changed.ranks[0][3]);
  expect_found(changed, {{0, 2, "OPTIMIZER_STEP", "runs before 'REDUCE_NORM'"}});
  changed = program;
  std::swap(changed.ranks[1][1], changed.ranks[1][2]);
  EXPECT_FALSE(verify(changed).ok());
}

TEST(VerifyTest, ChecksTheLossOfTheStep) {
  const std::vector<std::string> rows = {"0F0,0B0,REDUCE_LOSS,OPTIMIZER_STEP",
                                         "1F0,1B0,REDUCE_LOSS,OPTIMIZER_STEP"};
  const auto with_row = [&](std::size_t rank, const std::string& row) {
    std::vector<std::string> changed = rows;
    changed[rank] = row;
    return program_of(changed);
  };
  EXPECT_TRUE(verify(program_of(rows)).ok());
  EXPECT_TRUE(verify(with_row(0, "0F0,REDUCE_LOSS,0B0,OPTIMIZER_STEP")).ok());
  expect_found(with_row(1, "1F0,REDUCE_LOSS,1B0,OPTIMIZER_STEP"),
               {{0, 1, "0B0", "deadlock"}, {1, 1, "REDUCE_LOSS", "deadlock"}});
  expect_found(with_row(0, "0F0,0B0,OPTIMIZER_STEP"),
               {{0, -1, "REDUCE_LOSS", "never runs on this rank"}});
  expect_found(with_row(0, "0F0,0B0,REDUCE_LOSS,REDUCE_LOSS,OPTIMIZER_STEP"),
               {{0, 3, "REDUCE_LOSS", "a second time"}});
  expect_found(with_row(0, "0F0,0B0,OPTIMIZER_STEP,REDUCE_LOSS"),
               {{0, 2, "OPTIMIZER_STEP", "runs before 'REDUCE_LOSS'"}});
}

TEST(VerifyTest, TheLossComesAfterTheLastForwardOfTheRankThatComputesIt) {
  // REDUCE_LOSS may come before a backward, but not before a forward of its rank.
  EXPECT_TRUE(verify(program_of({"0F0,0F1,REDUCE_LOSS,0B0,0B1"})).ok());
  expect_found(program_of({"0F0,REDUCE_LOSS,0F1,0B0,0B1"}),
               {{0, 1, "REDUCE_LOSS", "runs before '0F1'"}});
}

TEST(VerifyTest, ChecksTheGatheringOfOutputsAsItDoesTheLoss) {
  const auto rows = [](const std::string& first) {
    return program_of({first, "1F0,1B0,GATHER_OUTPUTS,OPTIMIZER_STEP"});
  };
  EXPECT_TRUE(verify(rows("0F0,0B0,GATHER_OUTPUTS,OPTIMIZER_STEP")).ok());
  expect_found(rows("0F0,0B0,OPTIMIZER_STEP"),
               {{0, -1, "GATHER_OUTPUTS", "never runs on this rank"}});
  expect_found(rows("0F0,0B0,GATHER_OUTPUTS,GATHER_OUTPUTS,OPTIMIZER_STEP"),
               {{0, 3, "GATHER_OUTPUTS", "a second time"}});
  expect_found(rows("0F0,0B0,OPTIMIZER_STEP,GATHER_OUTPUTS"),
               {{0, 2, "OPTIMIZER_STEP", "runs before 'GATHER_OUTPUTS'"}});
  expect_found(program_of({"0F0,GATHER_OUTPUTS,0F1,0B0,0B1"}),
               {{0, 1, "GATHER_OUTPUTS", "runs before '0F1'"}});
}

TEST(VerifyTest, ChecksReductionsOfSingleMicrobatches) {
  const auto found = [](const std::string& row, std::vector<Found> expected) {
    expect_found(program_of({row}), expected);
  };
  EXPECT_TRUE(verify(program_of({"0F0,0F1,0B0,0REDUCE_GRAD0,0B1,0REDUCE_GRAD1"})).ok());
  found("0F0,0F1,0REDUCE_GRAD0,0B0,0B1,0REDUCE_GRAD1",
        {{0, -1, "0REDUCE_GRAD0", "never runs on this rank"},
         {0, 2, "0REDUCE_GRAD0", "before the gradient"}});
  found("0F0,0F1,0B0,0REDUCE_GRAD0,0REDUCE_GRAD0,0B1,0REDUCE_GRAD1",
        {{0, 4, "0REDUCE_GRAD0", "a second time"}});
  found("0F0,0F1,0B0,0REDUCE_GRAD0,0B1", {{0, -1, "0REDUCE_GRAD1", "never runs on this rank"}});
  found("0F0,0F1,0B0,0REDUCE_GRAD0,0B1,0REDUCE_GRAD1,0REDUCE_GRAD",
        {{0, 6, "0REDUCE_GRAD", "others reduce one microbatch"}});
  found("0F0,0B0,OPTIMIZER_STEP,0REDUCE_GRAD0",
        {{0, 2, "OPTIMIZER_STEP", "runs before '0REDUCE_GRAD0'"}});
}

TEST(VerifyTest, LossAndNormInAnotherOrderAreADeadlock) {
  expect_found(program_of({"0F0,0B0,REDUCE_LOSS,REDUCE_NORM", "1F0,1B0,REDUCE_NORM,REDUCE_LOSS"}),
               {{0, 2, "REDUCE_LOSS", "deadlock"}, {1, 2, "REDUCE_NORM", "deadlock"}});
}

TEST(VerifyTest, AForwardOnlyProgramMayEndWithTheLossAndNotWithTheNorm) {
  Program program = program_of({"0F0,REDUCE_LOSS", "1F0,REDUCE_LOSS"});
  program.forward_only = true;
  EXPECT_TRUE(verify(program).ok());
  program.ranks[1].push_back(Action::make(ActionKind::kReduceNorm));
  EXPECT_FALSE(verify(program).ok());
}

TEST(VerifyTest, RejectsBackwardsInAForwardOnlyProgram) {
  Program program = program_of({"0F0", "1F0"});
  EXPECT_FALSE(verify(program).ok());
  program.forward_only = true;
  EXPECT_TRUE(verify(program).ok());
  program.ranks[1].push_back(Action::backward(1, 0));
  expect_found(program, {{1, 1, "1B0", "forward only"}});
}

TEST(VerifyTest, ReportsEveryFaultNotTheFirst) {
  const VerifyReport report =
      verify(program_of({"0F0,0B0,0F1,0F1,0B1,0B2", "1F0,1B0,1F1,0B1,1B1,1F2"}, {0, 1}));
  EXPECT_EQ(report.violations.size(), 4U);  // 0F1 twice, no 0F2, 0B1 on rank 1, no 1B2
}

TEST(VerifyTest, CutsAListWithoutEnd) {
  Program program = program_of({"0F0,0B0"});
  program.ranks[0].insert(program.ranks[0].end(), 100000, Action::forward(0, 0));
  const VerifyReport report = verify(program);
  EXPECT_LT(report.violations.size(), 70000U);
  EXPECT_NE(report.violations.back().reason.find("more violations"), std::string::npos);
}

TEST(RequireVerifiedTest, ThrowsTheFirstViolationAndTheirNumber) {
  const Error error = error_of([] {
    require_verified(verify(program_of({"0B0,0F0", "1F0,1B0,1B0"})), "the schedule 'mine.csv'");
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "the schedule 'mine.csv' does not hold (4 violations)");
  EXPECT_EQ(error.where(), "rank 0, instruction 0 '0B0': needs '0F0' above it");
}

}  // namespace
}  // namespace sluice::verify_test
