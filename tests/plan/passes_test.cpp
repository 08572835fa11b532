#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/passes/passes.h"
#include "sluice/error.h"
#include "sluice/program.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"
#include "support/expect_error.h"
#include "support/programs.h"

namespace sluice::passes_test {
namespace {

using test::error_of;
using testing::program_of;
using testing::rows_of;
using Rows = std::vector<std::string>;

TEST(ToProgramTest, DropsIdleSlots) {
  const Schedule schedule = parse_schedule_csv("0F0,,0B0\n,1F0,1B0,\n", "f.csv");
  EXPECT_EQ(rows_of(to_program(schedule)), (Rows{"0F0,0B0", "1F0,1B0"}));
}

TEST(MergeBackwardTest, JoinsOnlyNeighboursOfOneStageAndMicrobatch) {
  EXPECT_EQ(rows_of(merge_backward(program_of({"0F0,0F1,0I0,0I1,0W1,0W0,1I0,0W0,1I1,1W0"}))),
            (Rows{"0F0,0F1,0I0,0B1,0W0,1I0,0W0,1I1,1W0"}));
}

TEST(SplitBackwardTest, IsTheInverseOfMerging) {
  const Program program = program_of({"0F0,0B0,0F1,0B1"});
  EXPECT_EQ(rows_of(split_backward(program)), (Rows{"0F0,0I0,0W0,0F1,0I1,0W1"}));
  EXPECT_EQ(rows_of(merge_backward(split_backward(program))), rows_of(program));
}

TEST(SplitBackwardTest, LeavesPairsAlone) {
  const Rows rows = {"0F0,(0F1;1B0)OVERLAP_F_B"};
  EXPECT_EQ(rows_of(split_backward(program_of(rows))), rows);
}

TEST(SplitOverlapTest, PutsTheForwardFirst) {
  EXPECT_EQ(rows_of(split_overlap(program_of({"0F0,(0F1;1B0)OVERLAP_F_B,(1F1;0I0)OVERLAP_F_B"}))),
            (Rows{"0F0,0F1,1B0,1F1,0I0"}));
}

TEST(KeepForwardTest, KeepsForwardsAndTheirTransfersInOrder) {
  const Program program = keep_forward(program_of(
      {"0UNSHARD,0F0,0SEND_F0,(0F1;3B0)OVERLAP_F_B,0SEND_F1,3SEND_B0,0B0,0RESHARD,0REDUCE_GRAD",
       "1RECV_F0,1F0,1RECV_F1,1F1,1B0,OPTIMIZER_STEP"}));
  EXPECT_EQ(rows_of(program),
            (Rows{"0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RESHARD", "1RECV_F0,1F0,1RECV_F1,1F1"}));
  EXPECT_TRUE(program.forward_only);
}

TEST(KeepForwardTest, KeepsTheLossAndNotTheNorm) {
  EXPECT_EQ(rows_of(keep_forward(
                program_of({"0F0,0B0,REDUCE_LOSS,GATHER_OUTPUTS,REDUCE_NORM,OPTIMIZER_STEP"}))),
            (Rows{"0F0,REDUCE_LOSS,GATHER_OUTPUTS"}));
}

TEST(KeepForwardTest, OfEveryScheduleVerifies) {
  for (const ScheduleInfo& info : schedule_table()) {
    LowerOptions options;
    options.forward_only = true;
    options.shard_parameters = true;
    // has no effect on a forward-only program
    options.reduce_gradients = options.optimizer_step = true;
    options.loss = true;
    const Program program =
        lower(make_schedule(info.name, {.num_ranks = 4, .num_microbatches = 8}), options);
    EXPECT_TRUE(verify(program).ok()) << info.name;
    for (const auto& row : program.ranks) {
      EXPECT_EQ(row.back().kind, ActionKind::kReduceLoss) << info.name;
      for (const Action& action : row) {
        EXPECT_NE(action.kind, ActionKind::kReduceGrad) << info.name;
        EXPECT_NE(action.kind, ActionKind::kOptimizerStep) << info.name;
      }
    }
  }
}

TEST(KeepUpdateTest, OfEveryScheduleVerifiesAfterEveryPass) {
  for (const ScheduleInfo& info : schedule_table()) {
    const Schedule schedule = make_schedule(info.name, {.num_ranks = 4, .num_microbatches = 8});
    LowerOptions options;
    options.update_only = options.update_by_stage = true;
    options.transfers = false;
    // No layer of the first rank is trained.
    for (int stage = 0; stage < schedule.num_stages(); ++stage) {
      options.backwards.push_back(schedule.stage_map.rank_of(stage) == 0 ? StageBackward::kInput
                                                                         : StageBackward::kFull);
    }
    Program program = to_program(schedule);
    for (const NamedPass& pass : lowering_passes(options)) {
      program = pass.apply(std::move(program), options);
      EXPECT_TRUE(verify(program).ok()) << info.name << ", " << pass.name;
    }
    EXPECT_EQ(program.ranks[0], std::vector{Action::make(ActionKind::kOptimizerStep)});
    std::size_t num_updates = 0;
    for (const auto& row : program.ranks)
      num_updates += static_cast<std::size_t>(std::count_if(
          row.begin(), row.end(), [](const Action& a) { return a.kind == ActionKind::kUpdate; }));
    EXPECT_EQ(num_updates,
              static_cast<std::size_t>(std::count(options.backwards.begin(),
                                                  options.backwards.end(), StageBackward::kFull)));
    EXPECT_EQ(lower(schedule, options).ranks, program.ranks);
  }
}

using enum StageBackward;

TEST(DropFrozenTest, LeavesNothingBelowAllThatIsTrainedAndNoWeightsOfWhatIsFrozen) {
  const Rows rows = {"0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD",
                     "1RECV_F0,1F0,1SEND_F0,1RECV_B0,1I0,1SEND_B0,1W0,1REDUCE_GRAD",
                     "2RECV_F0,2F0,2SEND_F0,2RECV_B0,2B0,2SEND_B0,2REDUCE_GRAD",
                     "3RECV_F0,3F0,3B0,3SEND_B0,3REDUCE_GRAD"};
  EXPECT_EQ(rows_of(drop_frozen(program_of(rows), {kNone, kWeights, kInput, kFull})),
            (Rows{"0F0,0SEND_F0", "1RECV_F0,1F0,1SEND_F0,1RECV_B0,1I0,1W0,1REDUCE_GRAD",
                  "2RECV_F0,2F0,2SEND_F0,2RECV_B0,2I0,2SEND_B0", rows[3]}));
}

TEST(DropFrozenTest, APairLosesItsBackwardOrTheWeightsOfIt) {
  const Rows rows = {"0F0,1F0,(0F1;1B0)OVERLAP_F_B,0B0,(1F1;0B1)OVERLAP_F_B,1B1"};
  EXPECT_EQ(rows_of(drop_frozen(program_of(rows), {kNone, kWeights})),
            (Rows{"0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,1B1"}));
  EXPECT_EQ(rows_of(drop_frozen(program_of(rows), {kFull, kInput})),
            (Rows{"0F0,1F0,(0F1;1I0)OVERLAP_F_B,0B0,(1F1;0B1)OVERLAP_F_B,1I1"}));
}

TEST(DropFrozenTest, EveryScheduleHoldsWhateverIsFrozen) {
  for (const ScheduleInfo& info : schedule_table()) {
    const Schedule schedule = make_schedule(info.name, {.num_ranks = 2, .num_microbatches = 4});
    const int num_stages = schedule.num_stages();
    for (unsigned trained = 1; trained < 1U << num_stages; ++trained) {
      LowerOptions options;
      options.reduce_gradients = options.loss = options.norm = options.optimizer_step = true;
      bool below = false;
      for (int stage = 0; stage < num_stages; ++stage) {
        const bool own = (trained >> stage & 1U) != 0;
        options.backwards.push_back(below ? (own ? kFull : kInput) : (own ? kWeights : kNone));
        below |= own;
      }
      Program program = lower(schedule, options);
      EXPECT_TRUE(verify(program).ok()) << info.name << trained;
      // The same actions must disappear from a program that already contains transfers.
      options.backwards.clear();
      Program with_all = lower(schedule, options);
      with_all = drop_frozen(std::move(with_all), program.backwards);
      EXPECT_TRUE(verify(with_all).ok()) << info.name << trained;
      const auto size = [](const Program& of) {
        std::size_t sum = 0;
        for (const auto& row : of.ranks) sum += row.size();
        return sum;
      };
      EXPECT_EQ(size(program), size(with_all)) << info.name << trained;
      EXPECT_LE(simulate(program).makespan, simulate(lower(schedule, options)).makespan);
    }
  }
}

TEST(DropFrozenTest, WhatIsSaidOfAnotherNumberOfStagesIsRefused) {
  EXPECT_NE(std::string(error_of([] {
                          drop_frozen(program_of({"0F0,0B0"}), {kNone, kFull});
                        }).what())
                .find("give them for every stage"),
            std::string::npos);
}

TEST(AddTransfersTest, PlacesBothEndsAtTheSameMoment) {
  EXPECT_EQ(rows_of(add_transfers(program_of({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"}))),
            (Rows{"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                  "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1"}));
}

TEST(AddTransfersTest, SendsBothHalvesOfAPairForwardFirst) {
  const Program program = program_of(
      {"0F0,3F0,0F1,3B0,3F1,0B0,3B1,0B1", "1F0,2F0,(1F1;2B0)OVERLAP_F_B,2F1,1B0,2B1,1B1"},
      {0, 1, 1, 0});
  EXPECT_EQ(rows_of(add_transfers(program))[1],
            "1RECV_F0,1F0,2F0,2SEND_F0,1RECV_F1,2RECV_B0,(1F1;2B0)OVERLAP_F_B,2F1,2SEND_F1,"
            "1B0,1SEND_B0,2RECV_B1,2B1,1B1,1SEND_B1");
}

TEST(AddTransfersTest, TransfersNothingWithinARank) {
  const Rows rows = {"0F0,1F0,1B0,0B0"};
  EXPECT_EQ(rows_of(add_transfers(program_of(rows))), rows);
}

TEST(AddTransfersTest, ExchangesNothingWithAStageThatLivesNowhere) {
  const Rows rows = {"0F0,2F0,2B0,0B0"};
  EXPECT_EQ(rows_of(add_transfers(program_of(rows))), rows);
}

TEST(AddTransfersTest, RefusesAnOrderThatCannotCompleteAndNamesWhereEveryRankIsStuck) {
  const Error error = error_of([] {
    add_transfers(program_of({"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"}));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), "rank 0 at instruction 1 '0B0', rank 1 at instruction 0 '1F1'");
}

TEST(AddTransfersTest, RefusesAProgramThatHoldsThemAlready) {
  const Error error = error_of([] { add_transfers(program_of({"0F0,0SEND_F0", "1RECV_F0,1F0"})); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), "rank 0, instruction 1 '0SEND_F0'");
}

TEST(AddTransfersTest, RefusesStagesAndMicrobatchesThatTheProgramDoesNotHave) {
  Program program = program_of({"0F0,0B0"});
  program.ranks[0][1].stage = 5;
  EXPECT_EQ(error_of([&] { add_transfers(program); }).where(), "rank 0, instruction 1 '5B0'");
  program = program_of({"0F0,0B0"});
  program.ranks[0][0].microbatch = 9;
  EXPECT_EQ(error_of([&] { add_transfers(program); }).where(), "rank 0, instruction 0 '0F9'");
}

TEST(AddTransfersTest, LeavesProgramsThatCompleteWithCapacityOne) {
  std::mt19937 random(5);
  for (int sample = 0; sample < 300; ++sample) {
    const Program program = add_transfers(testing::RandomOrder(random, 5, 3, 6).make());
    EXPECT_LE(verify(program).required_capacity, 1);
  }
}

TEST(DeferReceivesTest, PutsReceivesAboveWhatNeedsThem) {
  EXPECT_EQ(
      rows_of(defer_receives(program_of({"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0RECV_B1,0B0,0B1",
                                         "1RECV_F0,1RECV_F1,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1"}))),
      (Rows{"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
            "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1"}));
}

TEST(DeferReceivesTest, KeepsTheOrderOfTheTransfersOfARank) {
  EXPECT_EQ(
      rows_of(defer_receives(program_of({"0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0,0RECV_B1,0B1",
                                         "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"}))),
      (Rows{"0F0,0SEND_F0,0F1,0RECV_B0,0SEND_F1,0B0,0RECV_B1,0B1",
            "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1"}));
}

TEST(DeferReceivesTest, KeepsTheOrderOfAChannelWhereTheUseIsInAnother) {
  const Program program = program_of({"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F0,1RECV_F1,1F1,1F0"});
  EXPECT_EQ(rows_of(defer_receives(program))[1], "1RECV_F0,1RECV_F1,1F1,1F0");
}

TEST(DeferReceivesTest, RefusesAReceiveThatNothingNeeds) {
  const Error error = error_of([] {
    defer_receives(program_of({"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F0,1RECV_F1,1F0"}));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(std::string(error.what()).find("'1RECV_F1' is received and never used; rank 1"),
            std::string::npos)
      << error.what();
}

TEST(AddUnshardReshardTest, GathersWhatTheRowUsesNext) {
  EXPECT_EQ(rows_of(add_unshard_reshard(program_of({"0F0,1F0,2F0,2B0,1B0,0B0"}), 2)),
            (Rows{"0UNSHARD,1UNSHARD,0F0,0RESHARD,2UNSHARD,1F0,2F0,2B0,2RESHARD,0UNSHARD,1B0,"
                  "1RESHARD,0B0,0RESHARD"}));
}

TEST(AddUnshardReshardTest, BringsBothHalvesOfAPair) {
  EXPECT_EQ(rows_of(add_unshard_reshard(program_of({"0F0,(0F1;1B0)OVERLAP_F_B,1W0"}), 1)),
            (Rows{"0UNSHARD,0F0,1UNSHARD,(0F1;1B0)OVERLAP_F_B,0RESHARD,1W0,1RESHARD"}));
}

TEST(AddUnshardReshardTest, KeepsAStageNearerThanTheExtraHalfOfAPair) {
  EXPECT_EQ(rows_of(add_unshard_reshard(program_of({"0F0,0F1,(1F0;2B0)OVERLAP_F_B,0B0"}), 2)),
            (Rows{"0UNSHARD,1UNSHARD,2UNSHARD,0F0,0F1,0RESHARD,(1F0;2B0)OVERLAP_F_B,1RESHARD,"
                  "2RESHARD,0UNSHARD,0B0,0RESHARD"}));
}

TEST(AddUnshardReshardTest, NeverGathersMoreThanTheBoundAndThePair) {
  std::mt19937 random(6);
  for (int sample = 0; sample < 300; ++sample) {
    const int bound = testing::pick(random, 1, 4);
    const Program program =
        add_unshard_reshard(testing::RandomOrder(random, 3, 6, 5).make(), bound);
    EXPECT_TRUE(verify(program).ok());
    for (const auto& row : program.ranks) {
      int gathered = 0;
      for (const Action& action : row) {
        gathered += (action.kind == ActionKind::kUnshard) - (action.kind == ActionKind::kReshard);
        EXPECT_LE(gathered, bound + 1);
      }
      EXPECT_EQ(gathered, 0);
    }
  }
}

TEST(AddUnshardReshardTest, RefusesABoundBelowOne) {
  const Error error = error_of([] { add_unshard_reshard(program_of({"0F0,0B0"}), 0); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
}

TEST(AddReduceGradTest, FollowsTheLastGradientOfWeights) {
  EXPECT_EQ(rows_of(add_reduce_grad(program_of({"0F0,0F1,0I0,0B1,0W0,1F0,1F1,1B0,1I1,1W1"}))),
            (Rows{"0F0,0F1,0I0,0B1,0W0,0REDUCE_GRAD,1F0,1F1,1B0,1I1,1W1,1REDUCE_GRAD"}));
}

TEST(AddReduceGradTest, FollowsAPairThatEndsAStage) {
  EXPECT_EQ(rows_of(add_reduce_grad(program_of({"1F0,(0F0;1B0)OVERLAP_F_B,0B0"}))),
            (Rows{"1F0,(0F0;1B0)OVERLAP_F_B,1REDUCE_GRAD,0B0,0REDUCE_GRAD"}));
}

TEST(AddReduceGradTest, OrEveryOneOfThem) {
  const Program program =
      add_reduce_grad(program_of({"0F0,0F1,0I0,0B1,0W0,1F0,1F1,1B0,1I1,1W1"}), true);
  EXPECT_EQ(rows_of(program), (Rows{"0F0,0F1,0I0,0B1,0REDUCE_GRAD1,0W0,0REDUCE_GRAD0,1F0,1F1,1B0,"
                                    "1REDUCE_GRAD0,1I1,1W1,1REDUCE_GRAD1"}));
}

TEST(AddTiedReductionsTest, PutsGroupsOfSeveralStagesBehindAllComputeOfTheirRanks) {
  const Program program = add_tied_reductions(program_of({"0F0,2F0,2B0,0B0", "1F0,1B0"}, {0, 1, 0}),
                                              {{"a", {0, 2}}, {"b", {1}}, {"c", {0, 1}}});
  EXPECT_EQ(rows_of(program),
            (Rows{"0F0,2F0,2B0,0B0,0REDUCE_TIED,2REDUCE_TIED", "1F0,1B0,2REDUCE_TIED"}));
  EXPECT_EQ(program.tie_groups.size(), 3U);
}

TEST(AddTiedReductionsTest, RefusesAStageThatLivesNowhere) {
  const Error error = error_of([] {
    add_tied_reductions(program_of({"0F0,0B0"}), {{"lm_head.weight", {0, 7}}});
  });
  EXPECT_NE(std::string(error.what()).find("'lm_head.weight' is used by stage 7"),
            std::string::npos);
}

TEST(AddOptimizerStepTest, EndsEveryRank) {
  const Program program = program_of({"0F0,0B0", "1F0,1B0"});
  EXPECT_EQ(rows_of(add_optimizer_step(program, false)),
            (Rows{"0F0,0B0,OPTIMIZER_STEP", "1F0,1B0,OPTIMIZER_STEP"}));
  EXPECT_EQ(rows_of(add_optimizer_step(program, true)),
            (Rows{"0F0,0B0,REDUCE_NORM,OPTIMIZER_STEP", "1F0,1B0,REDUCE_NORM,OPTIMIZER_STEP"}));
}

TEST(SplitOptimizerStepTest, UpdatesEveryStageOfARankInTheOrderOfItsFirstUse) {
  const Program program = program_of(
      {"2F0,0F0,0B0,2B0,REDUCE_NORM,OPTIMIZER_STEP", "1F0,1B0,REDUCE_NORM,OPTIMIZER_STEP"});
  EXPECT_EQ(rows_of(split_optimizer_step(program)),
            (Rows{"2F0,0F0,0B0,2B0,REDUCE_NORM,2UPDATE,0UPDATE", "1F0,1B0,REDUCE_NORM,1UPDATE"}));
  const Program without = program_of({"0F0,0B0"});
  EXPECT_EQ(rows_of(split_optimizer_step(without)), (Rows{"0F0,0B0"}));
}

TEST(SplitOptimizerStepTest, ARankThatTrainsNothingKeepsItsOptimizerStep) {
  Program program = drop_frozen(program_of({"0F0,0B0", "1F0,1B0"}),
                                {StageBackward::kNone, StageBackward::kWeights});
  program = split_optimizer_step(add_optimizer_step(std::move(program), true));
  EXPECT_EQ(rows_of(program),
            (Rows{"0F0,REDUCE_NORM,OPTIMIZER_STEP", "1F0,1B0,REDUCE_NORM,1UPDATE"}));
  EXPECT_TRUE(verify(program).ok());
}

TEST(AddPartialNormsTest, StandWhereTheGradientsOfTheirStageAreKnown) {
  // The norm comes after the stage's last W or B and after the SEND of that backward.
  EXPECT_EQ(rows_of(add_partial_norms(
                program_of({"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0RECV_B1,0B1,0W0,REDUCE_NORM",
                            "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,REDUCE_NORM"}))),
            (Rows{"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0RECV_B1,0B1,0W0,0PARTIAL_NORM,"
                  "REDUCE_NORM",
                  "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,1PARTIAL_NORM,"
                  "REDUCE_NORM"}));
  // The norm of one stage comes before the backward of the next.
  EXPECT_EQ(rows_of(add_partial_norms(
                program_of({"0F0,3F0,3B0,0B0,REDUCE_NORM", "1F0,2F0,2B0,1B0,REDUCE_NORM"}))),
            (Rows{"0F0,3F0,3B0,3PARTIAL_NORM,0B0,0PARTIAL_NORM,REDUCE_NORM",
                  "1F0,2F0,2B0,2PARTIAL_NORM,1B0,1PARTIAL_NORM,REDUCE_NORM"}));
  EXPECT_EQ(rows_of(add_partial_norms(program_of({"0F0,0B0,OPTIMIZER_STEP"}))),
            (Rows{"0F0,0B0,OPTIMIZER_STEP"}));
}

TEST(AddPartialNormsTest, WaitForTiesAndForReplicasAtTheEndOfTheRow) {
  Program program =
      add_tied_reductions(program_of({"0F0,2F0,2B0,0B0", "1F0,3F0,3B0,1B0"}), {{"t", {0, 3}}});
  program = add_partial_norms(add_optimizer_step(std::move(program), true));
  EXPECT_EQ(rows_of(program),
            (Rows{"0F0,2F0,2B0,2PARTIAL_NORM,0B0,0REDUCE_TIED,0PARTIAL_NORM,REDUCE_NORM,"
                  "OPTIMIZER_STEP",
                  "1F0,3F0,3B0,1B0,1PARTIAL_NORM,0REDUCE_TIED,3PARTIAL_NORM,REDUCE_NORM,"
                  "OPTIMIZER_STEP"}));
  EXPECT_EQ(rows_of(add_partial_norms(
                program_of({"0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD,REDUCE_LOSS,REDUCE_NORM"}))),
            (Rows{"0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD,REDUCE_LOSS,1PARTIAL_NORM,"
                  "0PARTIAL_NORM,REDUCE_NORM"}));
}

TEST(AddLossReductionTest, StandsAboveTheNormAndTheUpdate) {
  EXPECT_EQ(rows_of(add_loss_reduction(program_of({"0F0,0B0", "1F0,1B0"}))),
            (Rows{"0F0,0B0,REDUCE_LOSS", "1F0,1B0,REDUCE_LOSS"}));
  EXPECT_EQ(rows_of(add_loss_reduction(program_of({"0F0,0B0,REDUCE_NORM,OPTIMIZER_STEP"}))),
            (Rows{"0F0,0B0,REDUCE_LOSS,REDUCE_NORM,OPTIMIZER_STEP"}));
  EXPECT_EQ(rows_of(add_loss_reduction(program_of({"0F0,0B0,OPTIMIZER_STEP"}))),
            (Rows{"0F0,0B0,REDUCE_LOSS,OPTIMIZER_STEP"}));
}

TEST(LowerTest, AppliesThePassesInOneOrder) {
  LowerOptions options;
  options.shard_parameters = options.reduce_gradients = options.defer_receives = true;
  options.merge_backward = options.loss = options.optimizer_step = options.norm = true;
  options.outputs = true;
  options.tie_groups = {{"t", {0, 1}}};
  std::vector<std::string> names;
  for (const NamedPass& pass : lowering_passes(options)) names.push_back(pass.name);
  EXPECT_EQ(names, (std::vector<std::string>{"merge_backward", "add_unshard_reshard",
                                             "add_reduce_grad", "add_transfers", "defer_receives",
                                             "add_tied_reductions", "add_loss_reduction",
                                             "add_output_gathering", "add_optimizer_step"}));
  const Program program =
      lower(make_schedule("1F1B", {.num_ranks = 2, .num_microbatches = 1}), options);
  EXPECT_EQ(rows_of(program),
            (Rows{"0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD,0REDUCE_TIED,"
                  "REDUCE_LOSS,GATHER_OUTPUTS,REDUCE_NORM,OPTIMIZER_STEP",
                  "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD,0REDUCE_TIED,"
                  "REDUCE_LOSS,GATHER_OUTPUTS,REDUCE_NORM,OPTIMIZER_STEP"}));
}

TEST(LowerTest, AddsOnlyTransfersByDefault) {
  ASSERT_EQ(lowering_passes({}).size(), 1U);
  EXPECT_EQ(lowering_passes({}).front().name, "add_transfers");
}

TEST(LowerTest, LeavesOutWhatAScheduleHoldsAlready) {
  LowerOptions options;
  options.shard_parameters = options.reduce_gradients = true;
  const Schedule schedule = make_schedule("ZBVZeroBubble", {.num_ranks = 2, .num_microbatches = 4});
  const Program once = lower(schedule, options);
  const Schedule lowered = parse_schedule_csv(to_csv(once.ranks), "f.csv", once.stage_map.ranks());
  EXPECT_EQ(rows_of(lower(lowered, options)), rows_of(once));
}

}  // namespace
}  // namespace sluice::passes_test
