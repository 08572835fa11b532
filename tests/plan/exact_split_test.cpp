// The exact split against all splits, one by one.
#include "plan/partition/exact_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "sluice/partition.h"
#include "support/expect_error.h"

namespace sluice::exact_split_test {
namespace {

using detail::exact_split;
using detail::ExactSplit;
using detail::SplitProblem;
using Starts = std::vector<int>;

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

TEST(ExactSplitTest, IsAsFastAsTheBestOfAllSplits) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> cost(0.1, 3.0);
  for (int round = 0; round < 200; ++round) {
    const int num_ranks = 1 + static_cast<int>(random() % 4);
    const int per_rank = 1 + static_cast<int>(random() % 3);
    const int num_layers = num_ranks * per_rank + static_cast<int>(random() % 5);
    std::vector<double> costs(static_cast<std::size_t>(num_layers));
    const bool alike = random() % 2 == 0;  // but for the ends
    for (double& each : costs) each = alike ? 1.0 : cost(random);
    costs.back() = cost(random);
    const Placement placement = random() % 2 == 0 ? Placement::kLoop : Placement::kV;
    const SplitProblem problem = problem_of(costs, num_ranks, per_rank, placement);
    const ExactSplit found = exact_split(problem);
    ASSERT_EQ(found.starts.size(), problem.stage_to_rank.size());
    EXPECT_TRUE(found.is_exact);
    EXPECT_NEAR(found.slowest, best_of_all(problem), 1e-9) << "round " << round;
    EXPECT_NEAR(found.slowest, slowest_rank(problem, found.starts), 1e-12);
  }
}

TEST(ExactSplitTest, OfSplitsThatAreNotAcceptedTakesTheFastestOther) {
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
    const ExactSplit found = exact_split(problem, accepts);
    ASSERT_FALSE(found.starts.empty());
    EXPECT_TRUE(accepts(found.starts));
    EXPECT_NEAR(found.slowest, best, 1e-9);
  }
}

TEST(ExactSplitTest, SaysSoWhenNothingIsAccepted) {
  const SplitProblem problem = problem_of({1, 1, 1, 1}, 2, 1, Placement::kLoop);
  EXPECT_TRUE(exact_split(problem, [](const Starts&) { return false; }).starts.empty());
}

TEST(ExactSplitTest, GivesTheFirstStagesMoreWhereThatMakesNoDifference) {
  const SplitProblem problem = problem_of(std::vector<double>(10, 1.0), 4, 1, Placement::kLoop);
  EXPECT_EQ(exact_split(problem).starts, (Starts{0, 3, 6, 9}));
  EXPECT_EQ(exact_split(problem_of(std::vector<double>(12, 1.0), 2, 2, Placement::kV)).starts,
            (Starts{0, 3, 6, 9}));
}

TEST(ExactSplitTest, SplitsManyLayersOnManyRanks) {
  // More splits than can be looked at: the block of a rank more or less is what counts.
  std::vector<double> costs(98, 1.0);
  costs.front() = 0.1;
  costs.back() = 2.5;
  const ExactSplit single = exact_split(problem_of(costs, 16, 1, Placement::kLoop));
  EXPECT_TRUE(single.is_exact);
  EXPECT_NEAR(single.slowest, 7.0, 0.11);
  for (const Placement placement : {Placement::kLoop, Placement::kV}) {
    const ExactSplit several = exact_split(problem_of(costs, 8, 2, placement));
    const double mean = std::accumulate(costs.begin(), costs.end(), 0.0) / 8;
    EXPECT_GE(several.slowest, mean);
    EXPECT_LE(several.slowest, mean + 1.0);
  }
}

ModelSpec blocks(int count) { return model_spec_of_blocks(count); }

PartitionOptions by_costs(std::vector<double> costs, int num_ranks) {
  PartitionOptions options;
  options.num_ranks = num_ranks;
  options.layer_costs = std::move(costs);
  return options;
}

TEST(CostSplitTest, CutsWhereTheSlowestRankIsFastest) {
  const ModelSpec model = blocks(6);  // with embedding, norm and head
  std::vector<double> costs(model.layers.size(), 1.0);
  costs.back() = 3.0;
  const Partition partition = make_partition(model, by_costs(costs, 2));
  EXPECT_EQ(partition.stages[0].num_layers, 5);
  EXPECT_EQ(partition.stages[1].num_layers, 1);
  EXPECT_FALSE(partition.weights);
}

TEST(CostSplitTest, LeavesNormAndHeadTogether) {
  const ModelSpec model = blocks(2);
  std::vector<double> costs(model.layers.size(), 0.1);
  costs.back() = costs[costs.size() - 2] = 5.0;
  const Partition partition = make_partition(model, by_costs(costs, 2));
  EXPECT_EQ(partition.stages[1].layers.size(), 2u);
  EXPECT_EQ(partition.stages[1].num_layers, 0);
}

TEST(CostSplitTest, RefusesWhatSaysWhereToCut) {
  const ModelSpec model = blocks(4);
  const std::vector<double> costs(model.layers.size(), 1.0);
  PartitionOptions options = by_costs(costs, 2);
  options.cuts = {"model.layers.1"};
  EXPECT_NE(test::message_of([&] {
              make_partition(model, options);
            }).find("a split by costs and cuts exclude each other"),
            std::string::npos);
  options = by_costs(costs, 2);
  options.first_stage_weight = 1;
  EXPECT_NE(test::message_of([&] { make_partition(model, options); }).find("exclude each other"),
            std::string::npos);
  options = by_costs({1, 2}, 2);
  EXPECT_NE(test::message_of([&] {
              make_partition(model, options);
            }).find("`layer_costs` has 2 numbers for"),
            std::string::npos);
  options = by_costs(std::vector<double>(model.layers.size(), -1.0), 2);
  EXPECT_NE(test::message_of([&] { make_partition(model, options); }).find("is negative"),
            std::string::npos);
}

TEST(CostSplitTest, NeedsALayerForEveryStage) {
  const ModelSpec model = blocks(3);
  EXPECT_NE(test::message_of([&] {
              make_partition(model, by_costs(std::vector<double>(model.layers.size(), 1.0), 4));
            }).find("3 layers cannot fill 4 stages"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::exact_split_test
