#include "sluice/simulate.h"

#include <gtest/gtest.h>

namespace sluice::draw_test {
namespace {

std::vector<RankTimeline> rows(const std::vector<std::vector<TimedAction>>& actions) {
  std::vector<RankTimeline> ranks;
  for (const std::vector<TimedAction>& row : actions) ranks.emplace_back().actions = row;
  return ranks;
}

Simulation two_ranks() {
  Simulation simulation;
  simulation.makespan = 9;
  simulation.ranks = rows({
      {{Action::forward(0, 0), 0, 1},
       {Action::forward(0, 1), 1, 2},
       {Action::backward(0, 0), 4, 6},
       {Action::backward(0, 1), 7, 9}},
      {{Action::forward(1, 0), 1, 2},
       {Action::backward(1, 0), 2, 4},
       {Action::forward(1, 1), 4, 5},
       {Action::backward(1, 1), 5, 7}},
  });
  return simulation;
}

TEST(DrawGridTest, DrawsOneRowPerRankAndLeavesOutTheStageWhereItIsTheRank) {
  EXPECT_EQ(draw_grid(two_ranks()),
            "rank 0  F0 F1 .  .  B0    .  B1\n"
            "rank 1  .  F0 B0    F1 B1    .  .\n"
            "F forward  B backward  . idle\n");
}

TEST(DrawGridTest, NamesStagesWhereTheyAreNotTheRank) {
  Simulation simulation;
  simulation.makespan = 4;
  simulation.ranks = rows({{{Action::forward(0, 0), 0, 1},
                            {Action::forward(1, 0), 1, 2},
                            {Action::backward_input(1, 0), 2, 3},
                            {Action::backward_weight(1, 0), 3, 4}}});
  EXPECT_EQ(draw_grid(simulation),
            "rank 0  0F0 1F0 1I0 1W0\n"
            "F forward  I gradient of the input  W gradient of the weights  . idle\n");
}

TEST(DrawGridTest, CutsALongGridInTheMiddleAndSaysSo) {
  Simulation simulation;
  simulation.makespan = 100;
  simulation.ranks.resize(1);
  for (int mb = 0; mb < 100; ++mb) {
    simulation.ranks[0].actions.push_back({Action::forward(0, mb), mb * 1.0, mb + 1.0});
  }
  const std::string picture = draw_grid(simulation, {.color = false, .width = 40});
  EXPECT_EQ(picture,
            "rank 0  F0  F1  F2   ... F97 F98 F99\n"
            "F forward  . idle\n"
            "slots 3 to 96 of 100 are left out\n");
}

TEST(DrawGridTest, ScalesActionsOfUnequalDurationsToTheShortest) {
  Simulation simulation;
  simulation.makespan = 1.0;
  simulation.ranks =
      rows({{{Action::forward(0, 0), 0.0, 0.25}, {Action::backward(0, 0), 0.25, 1.0}},
            {{Action::forward(1, 0), 0.5, 1.0}}});
  EXPECT_EQ(draw_grid(simulation),
            "rank 0  F0 B0\n"
            "rank 1  .  .  F0\n"
            "F forward  B backward  . idle\n");
}

TEST(DrawGridTest, StaysSmallWhenOneActionIsVeryShort) {
  Simulation simulation;
  simulation.makespan = 1e9;
  simulation.ranks = rows({{{Action::forward(0, 0), 0, 1e-9}, {Action::backward(0, 0), 1, 1e9}}});
  EXPECT_LT(draw_grid(simulation, {.color = false, .width = 1 << 20}).size(), 200u);
}

TEST(DrawGridTest, ColoursTakeNoColumns) {
  const std::string plain = draw_grid(two_ranks());
  std::string colored = draw_grid(two_ranks(), {.color = true, .width = 120});
  EXPECT_NE(colored.find("\x1b[97;44mF0\x1b[0m"), std::string::npos);
  for (std::size_t at; (at = colored.find('\x1b')) != std::string::npos;) {
    colored.erase(at, colored.find('m', at) - at + 1);
  }
  EXPECT_EQ(colored.substr(0, 20), plain.substr(0, 20));
}

Program one_rank(std::vector<Action> actions) {
  Program program;
  program.num_microbatches = 2;
  program.stage_map = StageMap(1, {0});
  program.ranks = {std::move(actions)};
  return program;
}

TEST(DrawViolationsTest, PointsAtTheSlotAndGivesTheReason) {
  const Program program =
      one_rank({Action::forward(0, 0), Action::backward(0, 1), Action::backward(0, 0)});
  VerifyReport report;
  report.violations = {{0, 1, "0B1", "its forward has not run"},
                       {0, -1, "", "microbatch 1 has no forward"},
                       {-1, -1, "", "nothing else"}};
  EXPECT_EQ(draw_violations(program, report),
            "rank 0  0F0 0B1 0B0\n"
            "        rank 0: microbatch 1 has no forward\n"
            "            ^ '0B1': its forward has not run\n"
            "nothing else\n");
}

TEST(DrawViolationsTest, ShowsThePartOfALongRowThatIsWrong) {
  std::vector<Action> actions;
  for (int mb = 0; mb < 50; ++mb) actions.push_back(Action::forward(0, mb));
  VerifyReport report;
  report.violations = {{0, 40, "0F40", "twice"}};
  EXPECT_EQ(draw_violations(one_rank(actions), report, {.color = false, .width = 40}),
            "rank 0  0F0 0F1 0F2 0F3 0F4 0F5 ...\n"
            "rank 0  ... 0F37 0F38 0F39 0F40 ...\n"
            "                           ^ '0F40': twice\n");
}

TEST(DrawViolationsTest, FindsTheSlotOnATerminalNarrowerThanItsContext) {
  std::vector<Action> actions(
      9, Action::overlap(Action::forward(0, 100000), Action::backward(0, 100000)));
  VerifyReport report;
  report.violations = {{0, 8, "x", "wrong"}};
  const std::string picture =
      draw_violations(one_rank(actions), report, {.color = false, .width = 8});
  EXPECT_NE(picture.find("^ 'x': wrong"), std::string::npos);
}

TEST(DrawViolationsTest, CountsTheViolationsThatItDoesNotDraw) {
  VerifyReport report;
  for (int i = 0; i < 40; ++i) report.violations.push_back({0, 0, "0F0", "wrong"});
  const std::string picture = draw_violations(one_rank({Action::forward(0, 0)}), report);
  EXPECT_NE(picture.find("and 24 more violations\n"), std::string::npos);
}

}  // namespace
}  // namespace sluice::draw_test
