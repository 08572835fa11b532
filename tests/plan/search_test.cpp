// Searched orders must be proven, keep microbatches in order, and be at least as fast as every
// named schedule with the same costs and memory.
#include "plan/choose/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/choose/best.h"
#include "plan/choose/search/order.h"
#include "plan/choose/search/search_question.h"
#include "report/search_output.h"
#include "sluice/verify.h"
#include "support/expect_error.h"

namespace sluice::search_test {
namespace {

constexpr std::int64_t kEffort = 2'000'000;

Costs random_costs(std::mt19937& random, int num_stages, bool with_transfers) {
  std::uniform_real_distribution<double> cost(0.3, 2.0);
  Costs costs;
  for (int stage = 0; stage < num_stages; ++stage) {
    StageCosts& each = costs.per_stage.emplace_back();
    each.forward = cost(random);
    each.backward_input = cost(random);
    each.backward_weight = cost(random);
    each.backward = each.backward_input + each.backward_weight;
    each.kept_bytes = 4;
    each.kept_after_input_bytes = 2;
    each.held_bytes = 10;
  }
  if (with_transfers) costs.latency = 0.1 * cost(random);
  return costs;
}

double makespan_of(const Schedule& schedule, const Costs& costs) {
  return simulate(lower(schedule), costs).makespan;
}

double peak_of(const Schedule& schedule, const Costs& costs) {
  const auto peaks = simulate(lower(schedule), costs).per_rank(&RankTimeline::peak_bytes);
  return *std::max_element(peaks.begin(), peaks.end());
}

TEST(OrderTimerTest, TellsWhatSimulateTells) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> cost_of_running(0.5, 9.0);
  for (const char* name : {"GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble",
                           "ZBVZeroBubble", "DualPipeV"}) {
    const Schedule schedule = make_schedule(name, {.num_ranks = 3, .num_microbatches = 8});
    Costs costs = random_costs(random, schedule.num_stages(), true);
    costs.message_bytes.assign(static_cast<std::size_t>(schedule.num_stages() - 1), 3.0);
    costs.bandwidth = 20.0;
    costs.action = 0.01;
    for (StageCosts& stage : costs.per_stage) stage.running_bytes = cost_of_running(random);
    const auto problem = detail::order_problem(schedule.stage_map, 8, costs,
                                               std::numeric_limits<double>::infinity());
    const detail::Order order = detail::order_of(schedule);
    ASSERT_FALSE(order.empty()) << name;
    EXPECT_NEAR(detail::OrderTimer(problem).time(order).makespan, makespan_of(schedule, costs),
                1e-9)
        << name;
    const double peak = peak_of(schedule, costs);
    const auto tight = detail::order_problem(schedule.stage_map, 8, costs, peak);
    EXPECT_LT(detail::OrderTimer(tight).time(order).makespan, 1e9) << name;
    const auto too_tight = detail::order_problem(schedule.stage_map, 8, costs, peak - 0.5);
    EXPECT_GT(detail::OrderTimer(too_tight).time(order).makespan, 1e9) << name;
  }
}

TEST(OrderTimerTest, TakesOnlyOrdersInWhichMicrobatchesFollowEachOther) {
  EXPECT_TRUE(detail::order_of(make_schedule("LoopedBFS", {.num_ranks = 2, .num_microbatches = 4}))
                  .empty());
  EXPECT_TRUE(detail::order_of(parse_schedule_csv("0F0,0F1,0B0\n", "own.csv")).empty());
}

TEST(SearchTest, IsAtLeastAsFastAsEveryNamedScheduleUnderUnequalCosts) {
  std::mt19937 random(5);
  for (int round = 0; round < 12; ++round) {
    const int num_ranks = 2 + round % 3;
    const int per_rank = 1 + round % 2;
    const int num_microbatches = 4 + 2 * (round % 3);
    const Costs costs = random_costs(random, num_ranks * per_rank, round % 2 == 0);
    ScheduleQuestion question;
    question.num_ranks = num_ranks;
    question.num_microbatches = num_microbatches;
    question.effort = kEffort;
    const SearchResult result = search_with_costs(question, costs);
    ASSERT_TRUE(result.found);
    EXPECT_TRUE(result.found->report.ok());
    EXPECT_EQ(detail::order_of_sums_violation(lower(result.found->schedule)), "");
    ASSERT_TRUE(result.best_named);
    const double best = result.named[*result.best_named].simulation.makespan;
    EXPECT_LE(result.found->simulation.makespan, best * (1 + 1e-9));
    EXPECT_EQ(result.is_better, result.found->simulation.makespan < best * (1 - 1e-9));
    for (const ScheduleAnswer& each : result.named) {
      if (each.refusal.empty()) {
        EXPECT_GE(each.simulation.makespan, best * (1 - 1e-9));
      }
    }
  }
}

TEST(SearchTest, BeatsThemWhereStagesAreUnequal) {
  // The last stage also has the head. Warm-up and drain of named schedules assume equal stages.
  std::mt19937 random(9);
  int better = 0;
  for (int round = 0; round < 6; ++round) {
    ScheduleQuestion question;
    question.num_ranks = 3;
    question.num_microbatches = 6;
    question.effort = kEffort;
    better += search_with_costs(question, random_costs(random, 6, true)).is_better ? 1 : 0;
  }
  EXPECT_GE(better, 4);
}

TEST(SearchTest, SaysThatNoneIsBetterWhereNoneIs) {
  ScheduleQuestion question;
  question.num_ranks = 1;
  question.stages_per_rank = 1;
  question.num_microbatches = 4;
  const SearchResult result = search_with_costs(question, {});
  EXPECT_FALSE(result.is_better);
  EXPECT_TRUE(search_text(result, {}).starts_with("none is better than "))
      << search_text(result, {});
  EXPECT_EQ(search_json(result).at("better"), false);
}

TEST(SearchTest, KeepsToTheMemoryThatItIsGiven) {
  std::mt19937 random(13);
  const Costs costs = random_costs(random, 4, false);
  const StageMap stage_map = make_stage_map(Placement::kLoop, 4, 4);
  SearchOptions options;
  options.effort = kEffort;
  double before = 0;
  for (const int live : {1, 2, 4, 8}) {
    options.max_bytes = 10.0 + 4.0 * live;
    const auto found = search_schedule(stage_map, 8, costs, options);
    ASSERT_TRUE(found);
    EXPECT_TRUE(verify(lower(*found)).ok());
    EXPECT_LE(peak_of(*found, costs), *options.max_bytes);
    const double makespan = makespan_of(*found, costs);
    if (before > 0) {
      EXPECT_LE(makespan, before * 1.02);
    }
    before = makespan;
  }
  options.max_bytes = 13.0;
  EXPECT_FALSE(search_schedule(stage_map, 8, costs, options));
}

TEST(SearchTest, FindsTheSameEveryTime) {
  std::mt19937 random(17);
  const Costs costs = random_costs(random, 6, true);
  const StageMap stage_map = make_stage_map(Placement::kV, 3, 6);
  SearchOptions options;
  options.effort = kEffort;
  EXPECT_EQ(search_schedule(stage_map, 6, costs, options)->rows,
            search_schedule(stage_map, 6, costs, options)->rows);
}

TEST(SearchTest, RefusesCostsOfAnotherNumberOfStages) {
  std::mt19937 random(19);
  const Costs costs = random_costs(random, 3, false);
  EXPECT_NE(test::message_of([&] {
              search_schedule(make_stage_map(Placement::kLoop, 2, 2), 4, costs);
            }).find("the costs are for 3 stages, but the stage map has 2"),
            std::string::npos);
  ScheduleQuestion question;
  question.num_ranks = 2;
  question.num_microbatches = 4;
  EXPECT_NE(test::message_of([&] {
              search_with_costs(question, costs);
            }).find("2 ranks cannot share evenly"),
            std::string::npos);
}

TEST(SearchTest, ALimitNeedsCostsThatKnowBytes) {
  ScheduleQuestion question;
  question.num_ranks = 2;
  question.num_microbatches = 4;
  question.max_bytes = 100;
  EXPECT_NE(test::message_of([&] { search_with_costs(question, {}); }).find("kept_bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::search_test
