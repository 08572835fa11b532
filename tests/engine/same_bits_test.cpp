#include <gtest/gtest.h>

#include "plan/passes/passes.h"
#include "sluice/schedule.h"
#include "support/programs.h"
#include "support/user_batches.h"

namespace sluice::test {
namespace {

struct Case {
  std::string schedule;
  int ranks, stages_per_rank, microbatches;
  UserModel model;
  bool ragged;
};

std::string text(const Case& c) {
  return c.schedule + " ranks " + std::to_string(c.ranks) + " stages/rank " +
         std::to_string(c.stages_per_rank) + " microbatches " + std::to_string(c.microbatches) +
         " model " + std::to_string(static_cast<int>(c.model)) + (c.ragged ? " ragged" : "");
}

std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (const ScheduleInfo& info : schedule_table()) {
    for (int ranks : {1, 2, 4}) {
      for (int stages_per_rank : {1, 2, 3}) {
        for (int microbatches : {4, 8}) {
          try {
            make_schedule(info.name, {ranks, stages_per_rank, microbatches});
          } catch (const Error&) {
            continue;
          }
          for (UserModel model : {UserModel::kMlp, UserModel::kUnsplittable, UserModel::kShared}) {
            for (bool ragged : {false, true}) {
              cases.push_back({info.name, ranks, stages_per_rank, microbatches, model, ragged});
            }
          }
        }
      }
    }
  }
  return cases;
}

std::vector<int> reversed(int n) {
  std::vector<int> order;
  for (int i = n - 1; i >= 0; --i) order.push_back(i);
  return order;
}

void expect_bits_of_one_loop(const Case& c) {
  const Model model = user_model(c.model, 10);
  const auto steps = user_batches(
      5, c.microbatches,
      c.ragged ? std::vector<std::int64_t>{3, 1, 4, 2, 6} : std::vector<std::int64_t>{2});
  const Program program =
      lowered(make_schedule(c.schedule, {c.ranks, c.stages_per_rank, c.microbatches}));
  const HarnessOptions options;
  const TrainedModel expected =
      train_in_one_loop(model, steps, options,
                        c.schedule == "LoopedBFS" ? reversed(c.microbatches) : std::vector<int>());
  const TrainedModel got = train_in_pipeline(model, program, steps, options);
  for (const std::string& error : got.errors) ASSERT_EQ(error, "") << text(c);
  EXPECT_TRUE(same_bits(got, expected)) << text(c);
}

TEST(SameBitsTest, HoldsForASampleOfSchedulesModelsAndLayouts) {
  const std::vector<Case> cases = every_case();
  ASSERT_GT(cases.size(), 200u);
  for (std::size_t i = 0; i < cases.size(); i += 11) expect_bits_of_one_loop(cases[i]);
}

TEST(SlowSameBitsTest, HoldsForEveryScheduleModelAndLayout) {
  for (const Case& c : every_case()) expect_bits_of_one_loop(c);
}

TEST(SameBitsTest, HoldsForHandMadeOrders) {
  const char* csv =
      "0F0,0F1,0F2,3F0,3I0,3F1,3I1,3W0,3F2,3W1,0I0,3I2,0I1,3W2,0W1,0B2,0W0\n"
      "1F0,2F0,1F1,2F1,1F2,2I0,1I0,2F2,2I1,1I1,2W0,2B2,1B2,1W0,2W1,1W1\n";
  const Schedule schedule = parse_schedule_csv(csv, "hand-made.csv");
  for (UserModel kind : {UserModel::kMlp, UserModel::kUnsplittable, UserModel::kShared}) {
    const Model model = user_model(kind, 10);
    const auto steps = user_batches(5, 3, {3, 1, 2});
    const HarnessOptions options;
    const TrainedModel got = train_in_pipeline(model, lowered(schedule), steps, options);
    for (const std::string& error : got.errors) ASSERT_EQ(error, "");
    // Each stage sums its gradients in the order of its own Ws and Bs, so compare stage by stage.
    const std::vector<std::vector<int>> orders{{1, 2, 0}, {2, 0, 1}, {0, 2, 1}, {0, 1, 2}};
    const Partition partition = even_partition(model, schedule.stage_map);
    // Only one step is comparable. Later steps start from weights that depend on all four orders.
    const std::vector<StepBatch> one(steps.begin(), steps.begin() + 1);
    const TrainedModel first = train_in_pipeline(model, lowered(schedule), one, options);
    for (int stage = 0; stage < 4; ++stage) {
      const TrainedModel expected = train_in_one_loop(model, one, options, orders[stage]);
      EXPECT_EQ(first.losses, expected.losses);
      for (const int layer : partition.stages[stage].layers) {
        const std::string prefix = model.layers[layer].name + ".";
        for (const auto& [name, weight] : expected.weights) {
          if (name.starts_with(prefix)) {
            EXPECT_TRUE(at::equal(weight, first.weights.at(name))) << name;
          }
        }
      }
    }
  }
}

std::vector<int> weight_order(const Program& program, int stage) {
  std::vector<int> order;
  const int rank = program.stage_map.rank_of(stage);
  for (Action action : program.ranks[rank]) {
    if (action.kind == ActionKind::kOverlap) action = action.overlap_backward();
    const bool weights =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight;
    if (weights && action.stage == stage) order.push_back(action.microbatch);
  }
  return order;
}

void expect_bits_for_random_orders(unsigned first_seed, unsigned num_seeds) {
  const HarnessOptions options;
  for (unsigned seed = first_seed; seed < first_seed + num_seeds; ++seed) {
    std::mt19937 random(seed);
    const Program program =
        add_optimizer_step(add_transfers(testing::RandomOrder(random, 4, 3, 5).make()), false);
    require_verified(verify(program), "random order");
    const auto kind = static_cast<UserModel>(seed % 3);
    const Model model = user_model(kind, 10);
    const auto steps = user_batches(1, program.num_microbatches, {3, 1, 2});
    const TrainedModel got = train_in_pipeline(model, program, steps, options);
    for (const std::string& error : got.errors) ASSERT_EQ(error, "") << seed;
    const Partition partition = even_partition(model, program.stage_map);
    for (int stage = 0; stage < program.num_stages(); ++stage) {
      const TrainedModel expected =
          train_in_one_loop(model, steps, options, weight_order(program, stage));
      EXPECT_EQ(got.losses, expected.losses) << seed;
      for (const int layer : partition.stages[stage].layers) {
        const std::string prefix = model.layers[layer].name + ".";
        for (const auto& [name, weight] : expected.weights) {
          if (name.starts_with(prefix)) {
            EXPECT_TRUE(at::equal(weight, got.weights.at(name))) << name << ", seed " << seed;
          }
        }
      }
    }
  }
}

TEST(SameBitsTest, HoldsForRandomOrders) { expect_bits_for_random_orders(1, 40); }
TEST(SlowSameBitsTest, HoldsForManyRandomOrders) { expect_bits_for_random_orders(1000, 1000); }

// Every third layer, and "last", use the matrix of "first".
Model tied_model(int blocks) {
  Model model = user_model(UserModel::kMlp, blocks);
  for (std::size_t i = 3; i < model.layers.size(); i += 3) {
    const std::string name = model.layers[i].name;
    const bool last = i + 1 == model.layers.size();
    model.layers[i] = linear_layer(name, 16, 16);
    model.layers[i].ties = {{"weight", "first.weight"}};
    if (last) model.layers[i].writes = {"prediction"};
  }
  return model;
}

TEST(SameBitsTest, HoldsForWeightsTiedAcrossAnyStages) {
  const Model model = tied_model(11);
  const auto steps = user_batches(4, 8, {2, 1});
  const HarnessOptions options;
  for (const ScheduleInfo& info : schedule_table()) {
    const TrainedModel expected = train_in_one_loop(
        model, steps, options, info.name == "LoopedBFS" ? reversed(8) : std::vector<int>());
    ASSERT_EQ(expected.weights.count("last.weight"), 0u);
    for (int ranks : {1, 2, 4}) {
      const Schedule schedule = make_schedule(info.name, {ranks, 0, 8});
      const Program program =
          lowered(schedule, even_partition(model, schedule.stage_map).tie_groups);
      const TrainedModel got = train_in_pipeline(model, program, steps, options);
      for (const std::string& error : got.errors) ASSERT_EQ(error, "");
      EXPECT_TRUE(same_bits(got, expected)) << info.name << " on " << ranks;
    }
  }
}

}  // namespace
}  // namespace sluice::test
