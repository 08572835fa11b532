#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <map>
#include <mutex>
#include <sstream>

#include "sluice/checkpoint.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"
#include "train/sliced_support.h"

namespace sluice::test::tensor_parallel_test {
namespace {

struct Layout {
  int tp = 1, pp = 1;
  DataParallel data_parallel = {.degree = 1, .shards = 2};
  const char* schedule = "1F1B";
  std::string rank_order = "pp,dp";
  int slices = 4;
  bool checkpointed = false;
  bool tied = false;
};

std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.schedule << ", tp " << layout.tp << " of " << layout.slices << ", pp "
             << layout.pp << ", dp " << layout.data_parallel.degree
             << (layout.data_parallel.zero3   ? " zero3"
                 : layout.data_parallel.zero1 ? " zero1"
                                              : "")
             << ", " << layout.rank_order << (layout.checkpointed ? ", checkpointed" : "")
             << (layout.tied ? ", tied" : "");
}

struct Result {
  std::vector<double> losses, norms;
  std::vector<std::pair<std::string, double>> parameter_norms;
  std::map<std::string, std::string> tensors;
};

PipelineOptions options_of(const Layout& layout) {
  PipelineOptions options;
  options.num_ranks = layout.pp;
  options.schedule = layout.schedule;
  options.num_microbatches = 4 / layout.data_parallel.degree;
  options.data_parallel = layout.data_parallel;
  options.tensor_parallel = {.degree = layout.tp, .slices = layout.slices};
  options.rank_order = layout.rank_order;
  options.step_end = StepEnd::kUpdate;
  if (layout.checkpointed) options.activation_checkpoint = ActivationCheckpoint::kFull;
  return options;
}

Inputs batch_of(const Pipeline& pipeline, int step, int degree) {
  const at::Tensor x = at::sin(at::arange(8 * kSlicedWidth, at::kFloat) * 0.3 + step).view({8, -1});
  const at::Tensor rows = x.tensor_split(degree)[static_cast<std::size_t>(pipeline.replica())];
  return {{"x", rows}, {"y", at::cos(2 * rows.slice(1, 0, 4))}};
}

std::map<std::string, std::string> content_of(const std::string& path) {
  const Checkpoint checkpoint(path);
  checkpoint.verify();
  std::map<std::string, std::string> content;
  for (const auto* tensors : {&checkpoint.manifest().weights, &checkpoint.manifest().optimizer}) {
    for (const SavedTensor& tensor : *tensors) {
      std::ostringstream text;
      for (const std::int64_t size : tensor.shape) text << size << ' ';
      content[tensor.name] = text.str() + tensor.dtype + " " + tensor.hash;
    }
  }
  return content;
}

Result train(const Layout& layout, int first = 0, int last = 5, const std::string& from = "",
             std::string to = "") {
  const TempDirectory folder;
  if (to.empty()) to = folder / "saved";
  Result result;
  std::mutex mutex;
  RunOptions options;
  options.seed = 3;
  options.parallelize = divide({.degree = layout.tp, .slices = layout.slices});
  run(
      sliced_model(layout.tied), options_of(layout),
      [&](Pipeline& pipeline) {
        EXPECT_EQ(pipeline.num_ranks(), layout.tp * layout.pp * layout.data_parallel.degree);
        Trainer trainer(pipeline, {.max_norm = 0.5});
        if (!from.empty()) pipeline.load(from);
        Result own;
        for (int step = first; step < last; ++step) {
          const StepResult done =
              trainer.step(batch_of(pipeline, step, layout.data_parallel.degree), 1e-2);
          EXPECT_EQ(done.microbatch_losses.size(), 4U);
          own.losses.push_back(done.loss);
          own.norms.push_back(done.grad_norm);
          own.parameter_norms = done.parameter_norms;
        }
        pipeline.save(to);
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(result.norms.empty() || own.norms == result.norms) << layout;
        result = own;
      },
      options);
  result.tensors = content_of(to);
  return result;
}

void expect_same(const Result& a, const Result& b, const Layout& layout) {
  EXPECT_EQ(a.losses, b.losses) << layout;
  EXPECT_EQ(a.norms, b.norms) << layout;
  EXPECT_EQ(a.parameter_norms, b.parameter_norms) << layout;
  EXPECT_EQ(a.tensors, b.tensors) << layout;
}

DataParallel replicas(int degree, bool zero1 = false, bool zero3 = false) {
  return {.degree = degree, .shards = 2, .zero1 = zero1, .zero3 = zero3};
}

const Result& one_rank() {
  static const Result result = train({});
  return result;
}

TEST(TensorParallelTest, EveryDegreeHasTheSameBits) {
  EXPECT_EQ(one_rank().losses.size(), 5U);
  EXPECT_LT(one_rank().losses.back(), one_rank().losses.front());
  for (const int pp : {1, 2}) {
    for (const DataParallel& how :
         {replicas(1), replicas(2), replicas(2, true), replicas(2, false, true)}) {
      for (const int tp : {1, 2, 4}) {
        const Layout layout{.tp = tp, .pp = pp, .data_parallel = how};
        expect_same(one_rank(), train(layout), layout);
      }
    }
  }
}

TEST(TensorParallelTest, EveryScheduleAndOrderOfRanksHasTheSameBits) {
  for (const Layout& layout :
       {Layout{.tp = 2, .pp = 2, .schedule = "GPipe", .rank_order = "tp,pp,dp,cp"},
        Layout{.tp = 2,
        .pp = 2,
        .data_parallel = replicas(2),
        .schedule = "ZBVZeroBubble",
        .rank_order = "dp,tp,cp,pp"},
        Layout{.tp = 4, .pp = 2, .schedule = "ZBVZeroBubble"},
        Layout{.tp = 2, .pp = 2, .data_parallel = replicas(2, true), .rank_order = "dp,pp,cp,tp"},
        Layout{.tp = 2, .pp = 2, .checkpointed = true},
        Layout{.tp = 2,
        .pp = 1,
        .data_parallel = replicas(2, false, true),
        .rank_order = "cp,tp,dp,pp"}})
    expect_same(one_rank(), train(layout), layout);
}

TEST(TensorParallelTest, TiedWeightsAddUpSliceBySlice) {
  const Result alone = train({.tied = true});
  EXPECT_NE(alone.losses, one_rank().losses);
  for (const Layout& layout :
       {Layout{.tp = 2, .pp = 2, .tied = true},
        Layout{.tp = 4, .pp = 2, .schedule = "ZBVZeroBubble", .tied = true},
        Layout{.tp = 2, .pp = 2, .data_parallel = replicas(2, false, true), .tied = true}})
    expect_same(alone, train(layout), layout);
}

TEST(TensorParallelTest, ACheckpointOfAnyDegreeGoesOnAtAnyOther) {
  const TempDirectory folder;
  const std::vector<Layout> layouts = {
      {.tp = 4},
      {.tp = 2, .pp = 2, .data_parallel = replicas(2, true)},
      {.tp = 1, .data_parallel = replicas(2, false, true)},
      {.tp = 4, .pp = 2, .data_parallel = replicas(2, false, true)},
      {.tp = 2}};
  Result last;
  std::vector<double> losses, norms;
  for (int part = 0; part < 5; ++part) {
    last = train(layouts[static_cast<std::size_t>(part)], part, part + 1,
                 part == 0 ? "" : folder / "saved", folder / "saved");
    losses.insert(losses.end(), last.losses.begin(), last.losses.end());
    norms.insert(norms.end(), last.norms.begin(), last.norms.end());
  }
  last.losses = losses;
  last.norms = norms;
  expect_same(one_rank(), last, layouts.back());
}

// Trains with a user's optimizer and requests the gradient norm.
Result train_by_hand(const Layout& layout) {
  const TempDirectory folder;
  PipelineOptions options = options_of(layout);
  options.step_end = StepEnd::kGradients;
  RunOptions hooked;
  hooked.seed = 3;
  hooked.parallelize = divide({.degree = layout.tp, .slices = layout.slices});
  Result result;
  std::mutex mutex;
  run(
      sliced_model(), options,
      [&](Pipeline& pipeline) {
        torch::optim::AdamW optimizer(pipeline.parameters(), torch::optim::AdamWOptions(1e-2));
        Result own;
        for (int step = 0; step < 3; ++step) {
          const Inputs batch = batch_of(pipeline, step, layout.data_parallel.degree);
          own.losses.push_back(pipeline.train_step(batch).loss);
          own.norms.push_back(pipeline.clip_grad_norm(0.5));
          pipeline.update(optimizer);
          optimizer.zero_grad();
          const StepResult evaluated = pipeline.eval_step(batch);
          EXPECT_EQ(evaluated.count, 8);
          own.losses.push_back(evaluated.loss);
        }
        pipeline.save(folder / "saved", {.optimizers = {&optimizer}});
        pipeline.load(folder / "saved", {.optimizers = {&optimizer}});
        pipeline.save(folder / "again", {.optimizers = {&optimizer}});
        const std::lock_guard lock(mutex);
        result.losses = own.losses;
        result.norms = own.norms;
      },
      hooked);
  result.tensors = content_of(folder / "saved");
  EXPECT_EQ(result.tensors, content_of(folder / "again")) << layout;
  return result;
}

TEST(TensorParallelTest, ACallersOptimizerHasTheSameBits) {
  const Result alone = train_by_hand({});
  for (const Layout& layout : {Layout{.tp = 2}, Layout{.tp = 4, .pp = 2},
                               Layout{.tp = 2, .data_parallel = replicas(2, true)},
                               Layout{.tp = 2, .data_parallel = replicas(2, false, true)}})
    expect_same(alone, train_by_hand(layout), layout);
}

TEST(TensorParallelTest, TheWholeStateGoesIntoAnyDegree) {
  std::vector<std::pair<std::string, at::Tensor>> whole;
  std::vector<double> losses;
  for (const int tp : {4, 1, 2}) {
    const Layout layout{.tp = tp, .pp = 2};
    RunOptions options;
    options.seed = static_cast<std::uint64_t>(tp);
    options.parallelize = divide({.degree = tp, .slices = layout.slices});
    const auto given = whole;
    run(
        sliced_model(), options_of(layout),
        [&](Pipeline& pipeline) {
          if (!given.empty()) pipeline.load_state_dict(given);
          const auto own = pipeline.state_dict();
          const double loss = pipeline.eval_step(batch_of(pipeline, 0, 1)).loss;
          if (pipeline.rank() != 0) return;
          EXPECT_EQ(own.size(), 4 * 5 + 2U);
          whole = own;
          losses.push_back(loss);
        },
        options);
  }
  EXPECT_EQ(losses, std::vector<double>(3, losses.front()));
}

TEST(TensorParallelTest, WithoutANumberOfSlicesEveryDegreeHasItsOwn) {
  const Result two = train({.tp = 2, .slices = 0});
  expect_same(train({.tp = 1, .slices = 2}), two, {.tp = 2, .slices = 0});
  EXPECT_NE(two.losses, one_rank().losses);
}

TEST(TensorParallelTest, AModuleOfOtherSlicesThanThePlansIsRefused) {
  RunOptions options;
  options.parallelize = divide({.degree = 2, .slices = 2});
  const Error error = error_of([&] {
    run(
        sliced_model(), options_of({.tp = 2, .slices = 4}), [](Pipeline&) {}, options);
  });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  EXPECT_NE(std::string(error.what()).find("of 2, but this rank has slices"), std::string::npos)
      << error.what();
}

}  // namespace
}  // namespace sluice::test::tensor_parallel_test
