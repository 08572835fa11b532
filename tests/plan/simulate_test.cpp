// Compares with the unit-cost grids of tests/reference/bubble.json, closed formulas, and small
// cases worked out by hand.
#include "sluice/simulate.h"

#include <gtest/gtest.h>

#include <numeric>

#include "plan/passes/passes.h"
#include "plan/predict/costs.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/programs.h"
#include "support/reference_cases.h"

namespace sluice::simulate_test {
namespace {

using test::error_of;
using testing::program_of;
using Doubles = std::vector<double>;

Program named(const std::string& name, int ranks, int microbatches, int stages_per_rank = 0) {
  return to_program(make_schedule(
      name,
      {.num_ranks = ranks, .stages_per_rank = stages_per_rank, .num_microbatches = microbatches}));
}

// ---- the reference grids ----

Program program_of_case(const nlohmann::json& entry) {
  if (entry.at("expect").contains("compute")) {
    return program_of(entry.at("expect").at("compute").get<std::vector<std::string>>());
  }
  const auto& input = entry.at("input");
  return named(input.at("schedule"), input.at("pp_size"), input.at("num_microbatches"),
               input.at("stages_per_rank"));
}

void expect_as_reference(const Simulation& simulation, const nlohmann::json& expect) {
  EXPECT_EQ(simulation.makespan, expect.at("makespan"));
  EXPECT_EQ(simulation.per_rank(&RankTimeline::busy), expect.at("busy_per_rank"));
  EXPECT_EQ(simulation.per_rank(&RankTimeline::finish), expect.at("finish_per_rank"));
  EXPECT_NEAR(simulation.bubble_fraction, expect.at("bubble_fraction"), 1e-6);
  EXPECT_EQ(simulation.per_rank(&RankTimeline::peak_live_until_grad_input),
            expect.at("peak_live_until_grad_input"));
  EXPECT_EQ(simulation.per_rank(&RankTimeline::peak_live),
            expect.at("peak_live_until_grad_weight"));
  const auto sum = [](const Doubles& list) {
    return std::accumulate(list.begin(), list.end(), 0.0);
  };
  EXPECT_EQ(sum(simulation.per_rank(&RankTimeline::warmup)) +
                sum(simulation.per_rank(&RankTimeline::waiting)) +
                sum(simulation.per_rank(&RankTimeline::drain)),
            expect.at("idle_total"));
}

void expect_start_times(const Simulation& simulation, const nlohmann::json& start_times) {
  ASSERT_EQ(simulation.ranks.size(), start_times.size());
  for (std::size_t rank = 0; rank < start_times.size(); ++rank) {
    ASSERT_EQ(simulation.ranks[rank].actions.size(), start_times[rank].size());
    for (std::size_t i = 0; i < start_times[rank].size(); ++i) {
      EXPECT_EQ(to_text(simulation.ranks[rank].actions[i].action), start_times[rank][i][0]);
      EXPECT_EQ(simulation.ranks[rank].actions[i].start, start_times[rank][i][1]);
    }
  }
}

TEST(SimulateReferenceTest, PredictsTheGridsOfEveryOrder) {
  int with_start_times = 0;
  for (const auto& entry : testing::reference_cases("bubble.json", "makespan")) {
    SCOPED_TRACE(entry.at("id"));
    const Program program = program_of_case(entry);
    const auto& expect = entry.at("expect");
    const Simulation simulation = simulate(program);
    expect_as_reference(simulation, expect);
    expect_as_reference(simulate(add_transfers(program)), expect);
    if (!expect.contains("start_times")) continue;
    expect_start_times(simulation, expect.at("start_times"));
    ++with_start_times;
  }
  EXPECT_GT(with_start_times, 50);
}

// ---- closed formulas ----

struct Cost {
  double f, i, w;
  Costs costs() const {
    Costs result;
    result.uniform = {.forward = f, .backward_input = i, .backward_weight = w, .backward = i + w};
    return result;
  }
};
const Cost kCosts[] = {{1, 1, 1}, {2, 3, 1}, {1, 1.5, 0.5}};

TEST(SimulateFormulaTest, GPipeAnd1F1BTakeOneRoundPerMicrobatchAndRank) {
  for (const Cost& cost : kCosts) {
    for (const auto& [p, m] : {std::pair{1, 3}, {2, 2}, {4, 8}, {8, 16}}) {
      for (const char* name : {"GPipe", "1F1B"}) {
        const Simulation simulation = simulate(named(name, p, m), cost.costs());
        EXPECT_DOUBLE_EQ(simulation.makespan, (m + p - 1) * (cost.f + cost.i + cost.w));
        EXPECT_NEAR(simulation.bubble_fraction, (p - 1.0) / (m + p - 1.0), 1e-12);
      }
    }
  }
}

TEST(SimulateFormulaTest, InterleavingDividesTheBubble) {
  for (const auto& [p, m, v] : {std::tuple{4, 8, 2}, {4, 16, 2}, {4, 8, 4}, {8, 16, 2}}) {
    const Simulation simulation = simulate(named("Interleaved1F1B", p, m, v));
    const double busy = 3.0 * m * v;
    EXPECT_NEAR((simulation.makespan - busy) / busy, (p - 1.0) / (v * m), 1e-12) << p << " " << m;
  }
}

TEST(SimulateFormulaTest, ZeroBubbleLeavesOnlyTheFill) {
  // ZB1P with one chunk idles for (p - 1)(F + B - 2W), where B = I + W.
  for (const auto& [p, m] : {std::pair{4, 8}, {4, 16}, {8, 16}, {8, 32}}) {
    const Simulation simulation = simulate(named("ZBVZeroBubble", p, m));
    EXPECT_NEAR(simulation.makespan - 6.0 * m, p - 1.0, 1e-12);
  }
}

TEST(SimulateFormulaTest, LiveActivationsOf1F1BFollowTheRank) {
  for (const auto& [p, m] : {std::pair{4, 8}, {8, 16}, {4, 2}}) {
    const Simulation simulation = simulate(named("1F1B", p, m));
    for (int rank = 0; rank < p; ++rank) {
      EXPECT_EQ(simulation.ranks[rank].peak_live, std::min(p - rank, m));
    }
  }
}

// ---- by hand ----

const std::vector<std::string> kTwoRanks = {"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"};

TEST(SimulateTest, SplitsIdleTimeIntoWarmUpWaitingAndDrain) {
  const Simulation simulation = simulate(program_of(kTwoRanks));
  EXPECT_EQ(simulation.makespan, 9);
  EXPECT_EQ(simulation.per_rank(&RankTimeline::warmup), (Doubles{0, 1}));
  EXPECT_EQ(simulation.per_rank(&RankTimeline::waiting), (Doubles{3, 0}));
  EXPECT_EQ(simulation.per_rank(&RankTimeline::drain), (Doubles{0, 2}));
}

TEST(SimulateTest, ChargesStagesAndRanksTheirOwnCosts) {
  Costs costs;
  costs.per_stage = {{.forward = 1, .backward_input = 1, .backward_weight = 1, .backward = 2},
                     {.forward = 10, .backward_input = 10, .backward_weight = 10, .backward = 20}};
  EXPECT_EQ(simulate(program_of(kTwoRanks), costs).per_rank(&RankTimeline::busy), (Doubles{6, 60}));
  costs.rank_speed = {0.5, 10};
  EXPECT_EQ(simulate(program_of(kTwoRanks), costs).per_rank(&RankTimeline::busy), (Doubles{12, 6}));
}

TEST(SimulateTest, DelaysMessagesByTheLatency) {
  Costs costs;
  costs.latency = 0.5;
  const Simulation simulation = simulate(program_of({"0F0,0B0", "1F0,1B0"}), costs);
  EXPECT_EQ(simulation.ranks[1].actions[0].start, 1.5);
  EXPECT_EQ(simulation.makespan, 1 + 0.5 + 1 + 2 + 0.5 + 2);
}

TEST(SimulateTest, SendsTheMessagesOfAChannelOneAfterTheOther) {
  Costs costs;
  costs.bandwidth = 10;
  costs.message_bytes = {40};
  costs.latency = 1;
  const Simulation simulation = simulate(program_of({"0F0,0F1,0F2", "1F0,1F1,1F2"}), costs);
  // Computed at 1, 2, 3; on the wire 1-5, 5-9, 9-13; each arrives one later.
  EXPECT_EQ(simulation.ranks[1].actions[0].start, 6);
  EXPECT_EQ(simulation.ranks[1].actions[1].start, 10);
  EXPECT_EQ(simulation.ranks[1].actions[2].start, 14);
}

TEST(SimulateTest, LetsAValueLeaveWhenItsInstructionIsReached) {
  const Simulation simulation =
      simulate(program_of({"0F0,0F1,0SEND_F0,0SEND_F1", "1RECV_F0,1F0,1RECV_F1,1F1"}));
  EXPECT_EQ(simulation.ranks[1].actions[0].start, 2);
}

TEST(SimulateTest, LetsAHalfOfAPairLeaveBeforeTheOtherEnds) {
  const Simulation simulation =
      simulate(program_of({"0F0,0SEND_F0,2RECV_F0,2F0,(0F1;2B0)OVERLAP_F_B,0SEND_F1,2SEND_B0",
                           "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1RECV_B0,1B0"},
                          {0, 1, 0}));
  EXPECT_EQ(simulation.ranks[1].actions[1].start, 4);  // 0F1 runs from 3 to 4, 2B0 from 4 to 6
  EXPECT_EQ(simulation.ranks[1].actions[2].start, 6);
}

TEST(SimulateTest, CountsLiveActivationsAfterEveryInstruction) {
  const Simulation simulation = simulate(program_of({"0F0,0F1,0I0,0W0,(0F2;0B1)OVERLAP_F_B,0B2"}));
  EXPECT_EQ(simulation.ranks[0].live, (std::vector<int>{1, 2, 2, 1, 1, 0}));
  EXPECT_EQ(simulation.ranks[0].peak_live, 2);
  EXPECT_EQ(simulation.ranks[0].peak_live_until_grad_input, 2);
}

TEST(SimulateTest, ReturnsAChainThatSpansTheMakespan) {
  std::mt19937 random(31);
  for (int sample = 0; sample < 200; ++sample) {
    Program program = testing::RandomOrder(random, 4, 3, 5).make();
    if (sample % 2) program = add_transfers(std::move(program));
    Costs costs;
    costs.uniform = {.forward = 1, .backward_input = 2, .backward_weight = 1.5, .backward = 3};
    costs.latency = sample % 3;
    const Simulation simulation = simulate(program, costs);
    const auto at = [&](const Simulation::Step& step) {
      return simulation.ranks[step.rank].actions[step.index];
    };
    ASSERT_FALSE(simulation.critical_path.empty());
    EXPECT_EQ(at(simulation.critical_path.front()).start, 0);
    EXPECT_EQ(at(simulation.critical_path.back()).end, simulation.makespan);
    for (std::size_t i = 1; i < simulation.critical_path.size(); ++i) {
      const auto& before = simulation.critical_path[i - 1];
      const auto& here = simulation.critical_path[i];
      const double gap = at(here).start - at(before).end;
      EXPECT_EQ(gap, before.rank == here.rank ? 0.0 : costs.latency);
    }
  }
}

TEST(SimulateTest, TakesTheWholeEndOfAStep) {
  const Program program = add_optimizer_step(
      add_tied_reductions(add_reduce_grad(program_of(kTwoRanks)), {{"t", {0, 1}}}), true);
  EXPECT_EQ(simulate(program).makespan, 9);
  EXPECT_EQ(simulate(program).ranks[0].live.size(), program.ranks[0].size());
}

// ---- asynchronous collectives ----

TEST(SimulatePostsTest, AReductionBehindComputeCostsNothingUntilTheNorm) {
  const Program program = add_optimizer_step(
      program_of({"0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD"}), /*with_norm=*/true);
  const double bare = simulate(program).makespan;
  EXPECT_EQ(bare, 6);
  Costs costs;
  costs.uniform.reduce_gradients = 2;
  const Simulation simulation = simulate(program, costs);
  EXPECT_EQ(simulation.ranks[0].actions[3].start, 4);  // 0B0 runs during 1REDUCE_GRAD
  EXPECT_EQ(simulation.per_rank(&RankTimeline::finish), (Doubles{6}));
  EXPECT_EQ(simulation.makespan, 6 + 2);  // nothing overlaps 0REDUCE_GRAD
  EXPECT_EQ(simulation.per_rank(&RankTimeline::drain), (Doubles{2}));
  EXPECT_EQ(to_text(simulation.ranks[0].actions[simulation.critical_path.back().index].action),
            "0B0");
  costs.per_stage = {{.forward = 1,
                      .backward_input = 1,
                      .backward_weight = 1,
                      .backward = 2,
                      .reduce_gradients = 0},
                     {.forward = 1,
                      .backward_input = 1,
                      .backward_weight = 1,
                      .backward = 2,
                      .reduce_gradients = 2}};
  EXPECT_EQ(simulate(program, costs).makespan, bare);  // the reduction of stage 1 is fully hidden
  costs.per_stage[1].reduce_gradients = 3;
  EXPECT_EQ(simulate(program, costs).makespan, bare + 1);
  costs.reduce_norm = 10;
  EXPECT_EQ(simulate(program, costs).makespan, bare + 1 + 10);
}

TEST(SimulatePostsTest, ReductionsOfARankFollowEachOther) {
  Costs costs;
  costs.per_stage = {{.forward = 1,
                      .backward_input = 1,
                      .backward_weight = 1,
                      .backward = 2,
                      .reduce_gradients = 5},
                     {.forward = 1,
                      .backward_input = 1,
                      .backward_weight = 1,
                      .backward = 2,
                      .reduce_gradients = 7}};
  const Program program = program_of({"0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD"});
  EXPECT_EQ(simulate(program, costs).makespan, 4 + 7 + 5);
}

TEST(SimulatePostsTest, ParametersAreGatheredBesideTheComputeOfAnotherStage) {
  const Program program = program_of({"0UNSHARD,1UNSHARD,0F0,1F0,1B0,1RESHARD,0B0,0RESHARD"});
  Costs costs;
  costs.uniform.unshard = 3;
  const Simulation simulation = simulate(program, costs);
  EXPECT_EQ(simulation.ranks[0].actions[0].start, 3);  // gathered from 0 to 3
  EXPECT_EQ(simulation.ranks[0].actions[1].start, 6);  // gathered from 3 to 6, during 0F0
  EXPECT_EQ(simulation.ranks[0].actions[3].start, 9);
  EXPECT_EQ(simulate(program).ranks[0].actions[0].start, 0);
}

TEST(SimulatePostsTest, ACollectiveBeginsWhenAllMembersPostedItAndOnlyItsUserWaits) {
  const std::vector<std::string> rows = {"0F0,REDUCE_LOSS,0B0", "1F0,REDUCE_LOSS,1B0"};
  Costs costs;
  costs.reduce_loss = 3;  // from 2 to 5
  EXPECT_EQ(simulate(program_of(rows), costs).makespan, 6);
  EXPECT_EQ(simulate(program_of(rows), costs).ranks[1].actions[1].start, 2);
  costs.reduce_loss = 9;
  const Simulation simulation = simulate(program_of(rows), costs);
  EXPECT_EQ(simulation.makespan, 2 + 9);
  EXPECT_EQ(simulation.per_rank(&RankTimeline::finish), (Doubles{6, 4}));
}

TEST(SimulatePostsTest, TiedSumsWaitForTheReductionsOfTheirStages) {
  Program program = add_optimizer_step(
      add_tied_reductions(add_reduce_grad(program_of({"0F0,0B0", "1F0,1B0"})), {{"t", {0, 1}}}),
      /*with_norm=*/true);
  Costs costs;
  costs.per_stage = {{.forward = 1,
                      .backward_input = 1,
                      .backward_weight = 1,
                      .backward = 2,
                      .reduce_gradients = 4},
                     {.forward = 1,
                      .backward_input = 1,
                      .backward_weight = 1,
                      .backward = 2,
                      .reduce_gradients = 100}};
  costs.reduce_tied = 1000;
  EXPECT_EQ(simulate(program, costs).makespan, 4 + 100 + 1000);  // 1B0 ends at 4
}

TEST(SimulatePostsTest, ANormOfAStageIsTakenWhileItsRankWaits) {
  // After 2B0, rank 0 waits from 5 to 7 for the gradient of stage 1.
  const Program program = program_of({"0F0,2F0,2B0,2PARTIAL_NORM,0B0,0PARTIAL_NORM,REDUCE_NORM",
                                      "1F0,1B0,1PARTIAL_NORM,REDUCE_NORM"});
  const double bare = simulate(program).makespan;
  EXPECT_EQ(bare, 9);  // 0F0 1F0 2F0 2B0 1B0 0B0
  Costs costs;
  costs.per_stage.assign(3, costs.uniform);
  costs.per_stage[1].partial_norm = 2;  // hidden: rank 1 waits for the norm anyway
  costs.per_stage[2].partial_norm = 2;
  EXPECT_EQ(simulate(program, costs).makespan, bare);
  costs.per_stage[2].partial_norm = 3;  // one unit does not fit into the wait and runs at the end
  EXPECT_EQ(simulate(program, costs).makespan, bare + 1);
  costs.per_stage[0].partial_norm = 5;  // not hidden: no wait remains
  EXPECT_EQ(simulate(program, costs).makespan, bare + 1 + 5);
}

TEST(SimulatePostsTest, AnUpdateKeepsItsRankAfterTheNorm) {
  Costs costs;
  costs.per_stage.assign(2, costs.uniform);
  costs.per_stage[0].optimizer_step = 3;
  costs.per_stage[1].optimizer_step = 4;
  costs.reduce_norm = 1;
  for (const char* end : {"0UPDATE,1UPDATE", "1UPDATE,OPTIMIZER_STEP", "OPTIMIZER_STEP"}) {
    const Program program = program_of({std::string("0F0,1F0,1B0,0B0,REDUCE_NORM,") + end});
    EXPECT_EQ(simulate(program, costs).makespan, 6 + 1 + 3 + 4) << end;
    EXPECT_EQ(simulate(program, costs).per_rank(&RankTimeline::finish), (Doubles{6})) << end;
  }
}

TEST(SimulatePostsTest, AMissingMemberIsMissedAtTheEndOfTheRow) {
  const Error error = error_of([] { simulate(program_of({"0F0,REDUCE_NORM,0B0", "1F0,1B0"})); });
  EXPECT_EQ(error.where(), "rank 0, instruction 2 '0B0'");
}

TEST(SimulateTest, SimulatesForwardOnlyPrograms) {
  const Simulation simulation = simulate(keep_forward(named("1F1B", 4, 6)));
  EXPECT_EQ(simulation.makespan, 9);
  EXPECT_EQ(simulation.per_rank(&RankTimeline::peak_live), (std::vector<int>{6, 6, 6, 6}));
}

TEST(SimulateTest, RefusesAProgramThatCannotCompleteAndSaysWhere) {
  Error error = error_of([] { simulate(program_of({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"})); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), "rank 0, instruction 1 '0B0'");
  error = error_of([] { simulate(program_of({"0F0,0SEND_F0", "1F0"})); });
  EXPECT_EQ(error.where(), "rank 1, instruction 0 '1F0'");
  error = error_of([] { simulate(program_of({"0F0,1REDUCE_TIED"})); });
  EXPECT_EQ(error.where(), "rank 0, instruction 1 '1REDUCE_TIED'");
}

TEST(SimulateTest, RefusesCostsThatDoNotFit) {
  const Program program = program_of(kTwoRanks);
  const auto refused = [&](auto change) {
    Costs costs;
    change(costs);
    return error_of([&] { simulate(program, costs); }).kind();
  };
  EXPECT_EQ(refused([](Costs& c) { c.per_stage.resize(3); }), ErrorKind::kUsage);
  EXPECT_EQ(refused([](Costs& c) { c.message_bytes = {1, 2}; }), ErrorKind::kUsage);
  EXPECT_EQ(refused([](Costs& c) { c.rank_speed = {1, 0}; }), ErrorKind::kUsage);
  EXPECT_EQ(refused([](Costs& c) { c.uniform.forward = -1; }), ErrorKind::kUsage);
  EXPECT_EQ(refused([](Costs& c) { c.latency = std::nan(""); }), ErrorKind::kUsage);
  EXPECT_EQ(refused([](Costs& c) { c.uniform.backward = 1.7e308; }), ErrorKind::kUsage);
}

TEST(SimulateTest, ChargesAStageThatDoesNotSplitItsWholeBackwardAtI) {
  const Program program = program_of({"0F0,0I0,0W0"});
  Costs costs;
  costs.uniform = {.forward = 1, .backward_input = 2, .backward_weight = 3, .backward = 7};
  const Simulation simulation = simulate(program, add_unsplit_costs(costs, 1, {0}));
  ASSERT_EQ(simulation.ranks[0].actions.size(), 3u);
  EXPECT_EQ(simulation.ranks[0].actions[1].end, 8);
  EXPECT_EQ(simulation.makespan, 8);
  EXPECT_EQ(simulate(program, add_unsplit_costs(costs, 1, {})).makespan, 6);
}

TEST(SimulateTest, TakesCostsOfZero) {
  Costs costs;
  costs.uniform = {.forward = 0, .backward_input = 0, .backward_weight = 0, .backward = 0};
  const Simulation simulation = simulate(program_of(kTwoRanks), costs);
  EXPECT_EQ(simulation.makespan, 0);
  EXPECT_EQ(simulation.bubble_fraction, 0);
}

}  // namespace
}  // namespace sluice::simulate_test
