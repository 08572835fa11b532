#include "plan/partition/cut_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "plan/partition/cutting.h"
#include "support/expect_error.h"

namespace sluice::cut_order_test {
namespace {

using detail::CutOrder;
using detail::split_by_costs;
using detail::SplitProblem;
using Starts = std::vector<int>;

Starts fastest(const SplitProblem& problem) { return *CutOrder(problem).at(0); }

double slowest_rank(const SplitProblem& problem, const Starts& starts) {
  std::vector<double> loads(problem.stage_to_rank.size(), 0);
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const auto stop =
        s + 1 < starts.size() ? static_cast<std::size_t>(starts[s + 1]) : problem.costs.size();
    for (auto i = static_cast<std::size_t>(starts[s]); i < stop; ++i)
      loads[static_cast<std::size_t>(problem.stage_to_rank[s])] += problem.costs[i];
  }
  return *std::max_element(loads.begin(), loads.end());
}

template <typename Visit>
void visit_splits(const SplitProblem& problem, Starts& starts, const Visit& visit) {
  if (starts.size() == problem.stage_to_rank.size()) {
    visit(starts);
    return;
  }
  for (int next = std::max(problem.first_cut, starts.back() + 1); next <= problem.last_cut;
       ++next) {
    starts.push_back(next);
    visit_splits(problem, starts, visit);
    starts.pop_back();
  }
}

double best_of_all(const SplitProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  Starts starts = {0};
  visit_splits(problem, starts,
               [&](const Starts& each) { best = std::min(best, slowest_rank(problem, each)); });
  return best;
}

SplitProblem problem_of(std::vector<double> costs, int num_ranks, int stages_per_rank,
                        Placement placement) {
  SplitProblem problem;
  problem.costs = std::move(costs);
  problem.first_cut = 1;
  problem.last_cut = static_cast<int>(problem.costs.size()) - 1;
  problem.stage_to_rank = make_stage_map(placement, num_ranks, num_ranks * stages_per_rank).ranks();
  return problem;
}

TEST(CutOrderTest, IsAsFastAsTheBestOfAllSplits) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> cost(0.1, 3.0);
  for (int round = 0; round < 200; ++round) {
    const int num_ranks = 1 + static_cast<int>(random() % 4);
    const int per_rank = 1 + static_cast<int>(random() % 3);
    const int num_layers = num_ranks * per_rank + static_cast<int>(random() % 5);
    std::vector<double> costs(static_cast<std::size_t>(num_layers));
    const bool alike = random() % 2 == 0;
    for (double& each : costs) each = alike ? 1.0 : cost(random);
    costs.back() = cost(random);
    const Placement placement = random() % 2 == 0 ? Placement::kLoop : Placement::kV;
    const SplitProblem problem = problem_of(costs, num_ranks, per_rank, placement);
    const Starts found = fastest(problem);
    ASSERT_EQ(found.size(), problem.stage_to_rank.size());
    EXPECT_NEAR(slowest_rank(problem, found), best_of_all(problem), 1e-9) << "round " << round;
  }
}

TEST(CutOrderTest, OfSplitsThatAreNotAcceptedTakesTheFastestOther) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    std::vector<double> costs(9);
    for (double& each : costs) each = 1 + static_cast<double>(random() % 5);
    const SplitProblem problem =
        problem_of(costs, 2, 1 + static_cast<int>(random() % 2), Placement::kV);
    const int first = 1 + static_cast<int>(random() % 5);
    const auto accepts = [&](const Starts& starts) { return starts[1] <= first; };
    double best = std::numeric_limits<double>::infinity();
    Starts starts = {0};
    visit_splits(problem, starts, [&](const Starts& each) {
      if (accepts(each)) best = std::min(best, slowest_rank(problem, each));
    });
    CutOrder order(problem);
    std::size_t place = 0;
    while (order.at(place) && !accepts(*order.at(place))) ++place;
    ASSERT_NE(order.at(place), nullptr);
    EXPECT_NEAR(slowest_rank(problem, *order.at(place)), best, 1e-9);
  }
}

TEST(CutOrderTest, EndsWhenNoMoreAreToBeLookedAt) {
  CutOrder order(problem_of({1, 1, 1, 1}, 2, 1, Placement::kLoop));
  for (const Starts& expected : {Starts{0, 2}, {0, 3}, {0, 1}}) {
    const std::size_t place = expected[1] == 2 ? 0 : expected[1] == 3 ? 1 : 2;
    ASSERT_NE(order.at(place), nullptr);
    EXPECT_EQ(*order.at(place), expected);
  }
  EXPECT_EQ(order.at(3), nullptr);
  // There are too many splits to list, so only the splits around the best one are returned.
  CutOrder many(problem_of(std::vector<double>(60, 1.0), 8, 1, Placement::kLoop));
  std::size_t count = 0;
  while (many.at(count)) ++count;
  EXPECT_EQ(count, 2001u);
  EXPECT_EQ(many.at(0)->size(), 8u);
}

TEST(CutOrderTest, GivesTheFirstStagesMoreWhereThatMakesNoDifference) {
  const SplitProblem problem = problem_of(std::vector<double>(10, 1.0), 4, 1, Placement::kLoop);
  EXPECT_EQ(fastest(problem), (Starts{0, 3, 6, 9}));
  EXPECT_EQ(fastest(problem_of(std::vector<double>(12, 1.0), 2, 2, Placement::kV)),
            (Starts{0, 3, 6, 9}));
}

TEST(CutOrderTest, SplitsManyLayersOnManyRanks) {
  // There are too many splits to list. One block more or less per rank decides the result.
  std::vector<double> costs(98, 1.0);
  costs.front() = 0.1;
  costs.back() = 2.5;
  const SplitProblem single = problem_of(costs, 16, 1, Placement::kLoop);
  EXPECT_NEAR(slowest_rank(single, fastest(single)), 7.0, 0.11);
  for (const Placement placement : {Placement::kLoop, Placement::kV}) {
    const SplitProblem several = problem_of(costs, 8, 2, placement);
    const double mean = std::accumulate(costs.begin(), costs.end(), 0.0) / 8;
    EXPECT_GE(slowest_rank(several, fastest(several)), mean);
    EXPECT_LE(slowest_rank(several, fastest(several)), mean + 1.0);
  }
}

ModelSpec blocks(int count) { return model_spec_of_blocks(count); }

PartitionOptions on_ranks(int num_ranks) {
  PartitionOptions options;
  options.num_ranks = num_ranks;
  return options;
}

TEST(CostSplitTest, CutsWhereTheSlowestRankIsFastest) {
  const ModelSpec model = blocks(6);
  std::vector<double> costs(model.layers.size(), 1.0);
  costs.back() = 3.0;
  const Partition partition = split_by_costs(model, on_ranks(2), costs);
  EXPECT_EQ(partition.stages[0].num_layers, 5);
  EXPECT_EQ(partition.stages[1].num_layers, 1);
  EXPECT_FALSE(partition.weights);
}

TEST(CostSplitTest, LeavesNormAndHeadTogether) {
  const ModelSpec model = blocks(2);
  std::vector<double> costs(model.layers.size(), 0.1);
  costs.back() = costs[costs.size() - 2] = 5.0;
  const Partition partition = split_by_costs(model, on_ranks(2), costs);
  EXPECT_EQ(partition.stages[1].layers.size(), 2u);
  EXPECT_EQ(partition.stages[1].num_layers, 0);
}

TEST(CostSplitTest, RefusesWhatSaysWhereToCut) {
  const ModelSpec model = blocks(4);
  const std::vector<double> costs(model.layers.size(), 1.0);
  PartitionOptions options = on_ranks(2);
  options.cuts = {"model.layers.1"};
  EXPECT_NE(test::message_of([&] {
              split_by_costs(model, options, costs);
            }).find("a split by costs and cuts exclude each other"),
            std::string::npos);
  options = on_ranks(2);
  options.first_stage_weight = 1;
  EXPECT_NE(
      test::message_of([&] { split_by_costs(model, options, costs); }).find("exclude each other"),
      std::string::npos);
  options = on_ranks(2);
  EXPECT_NE(test::message_of([&] {
              split_by_costs(model, options, {1, 2});
            }).find("there are 2 costs for"),
            std::string::npos);
  EXPECT_NE(test::message_of([&] {
              split_by_costs(model, options, std::vector<double>(model.layers.size(), -1.0));
            }).find("is negative"),
            std::string::npos);
}

TEST(CostSplitTest, NeedsALayerForEveryStage) {
  const ModelSpec model = blocks(3);
  EXPECT_NE(test::message_of([&] {
              split_by_costs(model, on_ranks(4), std::vector<double>(model.layers.size(), 1.0));
            }).find("3 layers cannot fill 4 stages"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::cut_order_test
