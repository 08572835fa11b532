#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "sluice/checkpoint.h"
#include "sluice/parts/saver.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"
#include "train/pipeline_control.h"
#include "train/trainer_support.h"

namespace sluice::test::trainer_checkpoint_test {
namespace {

struct Layout {
  const char* schedule;
  int ranks;
};
// All schedules but LoopedBFS sum gradients in microbatch order.
constexpr std::array kLayouts = {
    Layout{"GPipe", 1},         Layout{"GPipe", 3},           Layout{"1F1B", 2},
    Layout{"1F1B", 4},          Layout{"Interleaved1F1B", 2}, Layout{"InterleavedZeroBubble", 2},
    Layout{"ZBVZeroBubble", 2}, Layout{"ZBVZeroBubble", 4}};

TrainingRun part_of(TrainingRun run, std::int64_t first, std::int64_t last, const std::string& from,
                    const std::string& to) {
  run.steps = {run.steps.begin() + first - 1, run.steps.begin() + last};
  if (!from.empty()) {
    run.before_steps = [from](RankTrainer& trainer, Transport&) {
      EXPECT_TRUE(PipelineControl(trainer.pipeline()).load_state(Checkpoint(from)).empty());
    };
  }
  if (!to.empty()) {
    run.after_steps = [to, last](RankTrainer& trainer, Transport& transport) {
      SaveTarget target;
      target.path = to;
      target.head.run = "0123456789abcdef";
      target.head.step = last;
      // Half of the saves copy the state first, so later steps cannot change it.
      Saver saver;
      const SaveFrom from_what = last % 2 == 0 ? SaveFrom::kCopy : SaveFrom::kLive;
      ASSERT_FALSE(saver.begin(target, PipelineControl(trainer.pipeline()).state(), from_what,
                               transport.world()));
      const auto outcome = saver.finish(transport.world());
      ASSERT_FALSE(outcome->error) << outcome->error->what();
    };
  }
  return run;
}

void stop_and_go_on(bool tied, unsigned seed, const OptimizerOptions& optimizer) {
  constexpr std::int64_t kParts = 20;
  const TempDirectory folder;
  std::mt19937 random(seed);
  std::vector<std::int64_t> ends;
  std::int64_t num_steps = 0;
  for (int part = 0; part < kParts; ++part)
    ends.push_back(num_steps += std::uniform_int_distribution<std::int64_t>(1, 3)(random));
  const auto run_at = [&](const Layout& layout) {
    TrainingRun run = mlp_run(layout.schedule, layout.ranks, tied, static_cast<int>(num_steps));
    run.options.optimizer = optimizer;
    return run;
  };
  const TrainingResult whole = run_training(run_at({"1F1B", 2}));
  std::vector<StepResult> reports;
  TrainingResult last;
  for (std::size_t part = 0; part < ends.size(); ++part) {
    const Layout layout =
        kLayouts[std::uniform_int_distribution<std::size_t>(0, kLayouts.size() - 1)(random)];
    const std::int64_t first = part == 0 ? 1 : ends[part - 1] + 1;
    const std::string from = part == 0 ? "" : folder / "ck";
    last = run_training(part_of(run_at(layout), first, ends[part], from, folder / "ck"));
    reports.insert(reports.end(), last.reports.begin(), last.reports.end());
  }
  last.reports = std::move(reports);
  EXPECT_TRUE(same_bits(whole, last));
  const Checkpoint saved(folder / "ck");
  saved.verify();
  EXPECT_EQ(saved.manifest().step, num_steps);
  for (const auto& [name, tensor] : whole.weights)
    EXPECT_TRUE(at::equal(saved.read(SavedKind::kWeights, name), tensor)) << name;
}

TEST(TrainerCheckpointTest, TwentyStopsAndOtherLayoutsChangeNoBit) { stop_and_go_on(false, 1, {}); }

TEST(TrainerCheckpointTest, TwentyStopsAndOtherLayoutsChangeNoBitOfATiedModel) {
  stop_and_go_on(true, 2, {.max_norm = 0.5});
}

TEST(TrainerCheckpointTest, TwentyStopsAndOtherLayoutsChangeNoBitWithoutOptimizerState) {
  stop_and_go_on(false, 3, {.kind = OptimizerKind::kSgd});
}

TEST(TrainerCheckpointTest, ATiedParameterIsSavedOnceWhereverItsUsesAre) {
  for (const int ranks : {1, 2, 4}) {
    const TempDirectory folder;
    run_training(part_of(mlp_run("1F1B", ranks, /*tied=*/true), 1, 2, "", folder / "ck"));
    const Checkpoint saved(folder / "ck");
    EXPECT_TRUE(saved.find(SavedKind::kWeights, "first.weight"));
    EXPECT_TRUE(saved.find(SavedKind::kOptimizer, "exp_avg/first.weight"));
    EXPECT_FALSE(saved.find(SavedKind::kWeights, "last.weight"));
    const auto& ties = saved.manifest().ties;
    ASSERT_EQ(ties.size(), 1u);
    EXPECT_EQ(ties.begin()->second, "first.weight");
  }
}

TEST(TrainerCheckpointTest, ParametersWithoutStateInTheCheckpointAreNamedOnEveryRank) {
  const TempDirectory folder;
  TrainingRun sgd = part_of(mlp_run("1F1B", 2), 1, 1, "", folder / "ck");
  sgd.options.optimizer.kind = OptimizerKind::kSgd;
  const TrainingResult saved = run_training(sgd);
  TrainingRun adamw = part_of(mlp_run("GPipe", 3), 2, 2, "", "");
  adamw.before_steps = [&](RankTrainer& trainer, Transport&) {
    EXPECT_EQ(PipelineControl(trainer.pipeline()).load_state(Checkpoint(folder / "ck")).size(),
              saved.weights.size());
  };
  run_training(adamw);
}

TEST(TrainerCheckpointTest, AnotherModelIsRefused) {
  const TempDirectory folder;
  run_training(part_of(mlp_run("1F1B", 2), 1, 1, "", folder / "ck"));
  for (const int blocks : {5, 7}) {
    TrainingRun run = mlp_run("1F1B", 2);
    run.model = [blocks] { return mlp(false, blocks); };
    run.partition = even_partition(mlp(false, blocks), run.program.stage_map);
    const Error error = error_of([&] { run_training(part_of(run, 2, 2, folder / "ck", "")); });
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint) << error.what();
    EXPECT_NE(std::string(error.what()).find(blocks < 6 ? "the model has no '" : "has no '"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace sluice::test::trainer_checkpoint_test
