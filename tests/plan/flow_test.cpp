#include "sluice/parts/flow.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "plan/passes/passes.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"
#include "support/expect_error.h"
#include "support/programs.h"

namespace sluice::flow_test {
namespace {

using testing::program_of;
using testing::RandomOrder;
using testing::rows_of;

TEST(FlowTest, AChainGoesThroughAllStagesInOrder) {
  const Flow flow = Flow::chain(3);
  EXPECT_EQ(flow.num_stages(), 3);
  EXPECT_EQ(flow.first_stage(7), 0);
  EXPECT_EQ(flow.last_stage(7), 2);
  EXPECT_TRUE(flow.is_last(2, 7));
  EXPECT_FALSE(flow.is_first(1, 7));
  EXPECT_EQ(flow.producer(0, 7), Flow::kNone);
  EXPECT_EQ(flow.consumer(0, 7), 1);
  EXPECT_EQ(flow.producer(2, 7), 1);
  EXPECT_EQ(flow.consumer(2, 7), Flow::kNone);
  EXPECT_EQ(flow.num_cuts(), 2);
  EXPECT_TRUE(flow.covers(1000000));
}

TEST(FlowTest, GradientsGoAgainstActivations) {
  const Flow flow = Flow::chain(3);
  EXPECT_EQ(flow.source(ChannelKind::kActivation, 1, 0), 0);
  EXPECT_EQ(flow.destination(ChannelKind::kActivation, 1, 0), 2);
  EXPECT_EQ(flow.source(ChannelKind::kGradient, 1, 0), 2);
  EXPECT_EQ(flow.destination(ChannelKind::kGradient, 1, 0), 0);
}

TEST(FlowTest, AMicrobatchPassesTheStagesOfItsRouteOnly) {
  const Flow flow = Flow::along({{0, 1}, {3, 2}}, {0, 1, 1});
  EXPECT_TRUE(flow.passes(0, 0));
  EXPECT_FALSE(flow.passes(0, 1));
  EXPECT_EQ(flow.consumer(0, 1), Flow::kNone);
  EXPECT_EQ(flow.consumer(3, 1), 2);
  EXPECT_EQ(flow.last_stage(0), 1);
  EXPECT_EQ(flow.last_stage(2), 2);
  EXPECT_EQ(flow.num_passing(0, 3), 1);
  EXPECT_EQ(flow.num_passing(2, 3), 2);
  EXPECT_EQ(flow.num_cuts(), 4);
  EXPECT_TRUE(flow.covers(3));
  EXPECT_FALSE(flow.covers(2));
}

TEST(FlowTest, RefusesRoutesThatAreNone) {
  const auto refusal = [](const std::vector<std::vector<int>>& routes, std::vector<int> route_of) {
    return test::message_of([&] { Flow::along(routes, std::move(route_of)); });
  };
  EXPECT_NE(refusal({}, {}).find("no route is given"), std::string::npos);
  EXPECT_NE(refusal({{}}, {0}).find("a route passes no stage"), std::string::npos);
  EXPECT_NE(refusal({{0, -1}}, {0}).find("a route passes stage -1"), std::string::npos);
  EXPECT_NE(refusal({{0, 1, 0}}, {0}).find("a route passes stage 0 twice"), std::string::npos);
  EXPECT_NE(refusal({{0, 2}}, {0}).find("is on no route"), std::string::npos);
  EXPECT_NE(refusal({{0, 2147483647}}, {0}).find("is on no route"), std::string::npos);
  EXPECT_NE(refusal({{0}}, {1}).find("takes route 1 of only 1"), std::string::npos);
}

// Returns the program with its stages renumbered: stage s becomes names[s].
Program renamed(Program program, const std::vector<int>& names) {
  std::vector<int> ranks(names.size());
  for (std::size_t stage = 0; stage < names.size(); ++stage) {
    ranks[names[stage]] = program.stage_map.rank_of(static_cast<int>(stage));
  }
  program.stage_map = StageMap(program.num_ranks(), ranks);
  for (std::vector<Action>& row : program.ranks) {
    for (Action& action : row) {
      if (action.stage >= 0) action.stage = names[action.stage];
      if (action.backward_stage >= 0) action.backward_stage = names[action.backward_stage];
    }
  }
  program.flow = Flow::along({names}, {});
  return program;
}

void expect_same_proof(const Program& program, const Program& other) {
  const VerifyReport expected = verify(program), report = verify(other);
  ASSERT_TRUE(report.ok()) << report.violations.front().reason;
  EXPECT_EQ(report.max_in_flight, expected.max_in_flight);
  EXPECT_EQ(report.required_capacity, expected.required_capacity);
}

TEST(FlowTest, NothingDependsOnHowStagesAreNumbered) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const Program chain = RandomOrder(random, 5, 3, 6).make();
    std::vector<int> names(static_cast<std::size_t>(chain.num_stages()));
    std::iota(names.begin(), names.end(), 0);
    for (std::size_t n = names.size(); n > 1; --n) std::swap(names[n - 1], names[random() % n]);
    const Program other = renamed(chain, names);

    const Program lowered = defer_receives(add_transfers(add_reduce_grad(chain)));
    const Program other_lowered = defer_receives(add_transfers(add_reduce_grad(other)));
    ASSERT_EQ(rows_of(other_lowered), rows_of(renamed(lowered, names)));

    Costs costs;
    costs.latency = 0.25;
    EXPECT_EQ(simulate(other_lowered, costs).makespan, simulate(lowered, costs).makespan);
    expect_same_proof(chain, other);
    expect_same_proof(lowered, other_lowered);
  }
}

TEST(FlowTest, TheProofRefusesAProgramOfAnotherRoute) {
  Program program = add_transfers(program_of({"0F0,0B0", "1F0,1B0"}));
  ASSERT_TRUE(verify(program).ok());
  program.flow = Flow::along({{1, 0}}, {});
  EXPECT_EQ(verify(program).violations.front().reason,
            "its input is never received: no '0RECV_F0'");
}

// Two ranks, two directions. Stages 0 and 1 are on ranks 0 and 1; their copies 2 and 3 are on ranks
// 1 and 0.
Program two_directions() {
  Program program = program_of({"0F0,3F1,3B1,0B0", "2F1,1F0,1B0,2B1"}, {0, 1, 1, 0});
  program.flow = Flow::along({{0, 1}, {2, 3}}, {0, 1});
  return program;
}

TEST(FlowTest, MicrobatchesMayTakeTwoDirections) {
  const Program program = add_transfers(add_reduce_grad(two_directions()));
  EXPECT_EQ(rows_of(program),
            (std::vector<std::string>{
                "0F0,0SEND_F0,3RECV_F1,3F1,3B1,3SEND_B1,0RECV_B0,3REDUCE_GRAD,0B0,0REDUCE_GRAD",
                "1RECV_F0,2F1,2SEND_F1,1F0,2RECV_B1,1B0,1SEND_B0,1REDUCE_GRAD,2B1,2REDUCE_GRAD"}));
  const VerifyReport report = verify(program);
  EXPECT_TRUE(report.ok()) << report.violations.front().reason;
  EXPECT_EQ(report.max_in_flight, 1);
  EXPECT_EQ(simulate(program).makespan, 6.0);
  EXPECT_EQ(simulate(program).bubble_fraction, 0.0);
}

TEST(FlowTest, TheProofRefusesAStageThatTheMicrobatchDoesNotPass) {
  Program program = two_directions();
  program.ranks[0].push_back(Action::forward(0, 1));
  const VerifyReport report = verify(program);
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_EQ(report.violations[0].reason, "microbatch 1 does not pass stage 0");
}

TEST(FlowTest, TheProofNamesTheMicrobatchesThatAStageLacks) {
  Program program = program_of({"0F0,0B0,1F5,1B5"}, {0, 0});
  program.flow = Flow::along({{0}, {1}}, {0, 1, 0, 0, 1, 1});
  const VerifyReport report = verify(program);
  std::vector<std::string> forwards;
  for (const Violation& violation : report.violations) {
    if (violation.reason.find("forward") != std::string::npos) {
      forwards.push_back(violation.action + " " + violation.reason);
    }
  }
  EXPECT_EQ(forwards,
            (std::vector<std::string>{"0F2 microbatches 2 to 3 never run forward on stage 0",
                                      "1F1 microbatch 1 never runs forward on stage 1",
                                      "1F4 microbatch 4 never runs forward on stage 1"}));
}

TEST(FlowTest, AProgramNeedsAFlowOfItsSize) {
  Program program = program_of({"0F0,0B0"});
  program.flow = Flow::chain(2);
  EXPECT_EQ(verify(program).violations.front().reason,
            "the flow does not match 1 stage and 1 microbatch");
  EXPECT_NE(test::message_of([&] { add_transfers(program); }).find("the program's flow"),
            std::string::npos);
  program.flow = Flow::along({{0}}, {0, 0});
  EXPECT_FALSE(verify(program).ok());
}

}  // namespace
}  // namespace sluice::flow_test
