#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <set>

#include "sluice/checkpoint.h"
#include "sluice/parts/saver.h"
#include "sluice/pipeline.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"
#include "train/pipeline_control.h"
#include "train/trainer_support.h"

namespace sluice::test::data_parallel_test {
namespace {

struct Layout {
  std::string schedule;
  int ranks;
  DataParallel data_parallel;
  std::string rank_order = "pp,dp";
  int max_active_stages = 3;
};
std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.schedule << ", " << layout.ranks << " x " << layout.data_parallel.degree
             << ", " << layout.data_parallel.num_shards() << " shards, " << layout.rank_order
             << (layout.data_parallel.zero1 ? ", zero1" : "")
             << (layout.data_parallel.zero3 ? ", zero3" : "");
}

DataParallel replicas(int degree, int shards) {
  DataParallel how;
  how.degree = degree;
  how.shards = shards;
  return how;
}

// Microbatches count different numbers of tokens, and some count none.
std::vector<StepBatch> uneven_steps(int num_steps, int num_microbatches, std::int64_t width) {
  std::vector<StepBatch> steps;
  for (int step = 1; step <= num_steps; ++step) {
    StepBatch batch;
    batch.step = step;
    for (int m = 0; m < num_microbatches; ++m) {
      const std::int64_t rows = 1 + (m * 3 + step) % 4;
      const at::Tensor x = at::sin(at::arange(rows * width, at::kFloat) * (0.7f + 0.1f * m) + step)
                               .reshape({rows, width});
      const bool counts = m != 1 && m != 2;
      batch.microbatches.push_back({{"x", x}, {"y", at::cos(2 * x)}, {"w", at::full({}, counts)}});
      batch.counts.push_back(counts ? rows * width : 0);
    }
    steps.push_back(std::move(batch));
  }
  return steps;
}

LossValue weighted_error(const Values& outputs, const Values& batch) {
  const at::Tensor difference = outputs.get("prediction") - batch.get("y");
  const bool counts = batch.get("w").item<bool>();
  return {(difference * difference).sum() * (counts ? 1.0 : 0.0), counts ? difference.numel() : 0};
}

Model weighted_mlp(bool tied, std::int64_t width) {
  Model model;
  model.layers =
      make_user_layers(UserModel::kMlp, width > kTrainerWidth ? 2 : 6, width, /*dropout=*/0.1);
  if (tied) model.layers.back().ties = {{"weight", "first.weight"}};
  model.inputs = {"x", "y", "w"};
  model.outputs = {"prediction"};
  model.loss = weighted_error;
  return model;
}

struct RunOf {
  bool tied = false;
  std::int64_t width = kTrainerWidth;
  int num_microbatches = 8;  // of all replicas
  int num_steps = 5;
};

TrainingRun run_of(const Layout& layout, const RunOf& what = {}) {
  TrainingRun run;
  run.model = [what] { return weighted_mlp(what.tied, what.width); };
  const int each = what.num_microbatches / layout.data_parallel.degree;
  const auto program = [&](std::vector<TieGroup> ties) {
    return replicated_program(layout.schedule, layout.ranks, each, layout.data_parallel,
                              std::move(ties), layout.rank_order, layout.max_active_stages);
  };
  run.program = program({});
  const int last = run.program.num_stages() - 1;
  if (what.tied && last > 0) run.program = program({{"first.weight", {0, last}}});
  run.partition = even_partition(run.model(), run.program.stage_map);
  run.steps = uneven_steps(what.num_steps, what.num_microbatches, what.width);
  run.options.seed = 3;
  run.options.optimizer.max_norm = 0.5;
  run.options.data_parallel = layout.data_parallel;
  return run;
}

TrainingResult train(const Layout& layout, const RunOf& what = {}) {
  return run_training(run_of(layout, what));
}

DataParallel with_zero1(DataParallel how) {
  how.zero1 = true;
  return how;
}

DataParallel with_zero3(DataParallel how) {
  how.zero3 = true;
  return how;
}

std::vector<Layout> layouts_of_four_shards() {
  std::vector<Layout> layouts;
  for (const auto& [ranks, degree] :
       {std::pair(2, 1), std::pair(4, 1), std::pair(2, 2), std::pair(1, 4), std::pair(1, 2)}) {
    for (const char* schedule : {"GPipe", "1F1B"})
      layouts.push_back({schedule, ranks, replicas(degree, 4)});
    if (ranks != 2) continue;
    for (const char* schedule : {"Interleaved1F1B", "ZBVZeroBubble"})
      layouts.push_back({schedule, ranks, replicas(degree, 4)});
  }
  layouts.push_back({"1F1B", 2, replicas(2, 4), "dp,pp"});
  return layouts;
}

TEST(DataParallelTest, NumbersAreTheSameBitsForEveryNumberOfRanksAndReplicasAndEverySchedule) {
  const TrainingResult alone = train({"GPipe", 1, replicas(1, 4)});
  EXPECT_LT(alone.reports.back().loss, alone.reports.front().loss);
  EXPECT_FALSE(same_bits(alone, train({"GPipe", 1, replicas(1, 1)}))) << "the tree can be told";
  for (const Layout& layout : layouts_of_four_shards()) {
    const TrainingResult result = train(layout);
    EXPECT_TRUE(same_bits(alone, result)) << layout;
    for (const auto& reports : result.of_rank)
      EXPECT_EQ(reports.back().grad_norm, alone.reports.back().grad_norm) << layout;
  }
}

TEST(DataParallelTest, OneShardIsTheSumInTheOrderOfTheMicrobatches) {
  const TrainingResult plain = train({"GPipe", 1, {}});
  EXPECT_TRUE(same_bits(plain, train({"GPipe", 1, replicas(1, 1)})));
  EXPECT_FALSE(same_bits(plain, train({"GPipe", 1, replicas(1, 2)})));
}

TEST(DataParallelTest, ATiedWeightAddsUpOverShardsBeforeItAddsUpOverItsUses) {
  const RunOf tied{.tied = true};
  const TrainingResult alone = train({"GPipe", 1, replicas(1, 4)}, tied);
  for (const Layout& layout : layouts_of_four_shards())
    EXPECT_TRUE(same_bits(alone, train(layout, tied))) << layout;
}

TEST(DataParallelTest, ParametersOfSeveralBlocksAreDividedAmongReplicas) {
  const RunOf wide{.width = 136, .num_steps = 2};  // parameters of 18,496 and 36,992 elements
  const TrainingResult alone = train({"GPipe", 1, replicas(1, 4)}, wide);
  for (const Layout& layout :
       {Layout{"1F1B", 1, replicas(4, 4)}, Layout{"1F1B", 2, replicas(2, 4)}})
    EXPECT_TRUE(same_bits(alone, train(layout, wide))) << layout;
}

TEST(DataParallelTest, ShardsThatAreNoPowerOfTwoAddUpInTheirTree) {
  const RunOf twelve{.num_microbatches = 12, .num_steps = 3};
  const TrainingResult alone = train({"GPipe", 1, replicas(1, 6)}, twelve);
  for (const int degree : {2, 3, 6})
    EXPECT_TRUE(same_bits(alone, train({"1F1B", 1, replicas(degree, 6)}, twelve))) << degree;
  EXPECT_TRUE(same_bits(alone, train({"ZBVZeroBubble", 2, replicas(3, 6)}, twelve)));
}

TEST(DataParallelTest, MixedPrecisionHasTheSameBitsForEveryNumberOfReplicas) {
  const auto run = [](const Layout& layout) {
    TrainingRun mixed = run_of(layout);
    mixed.options.autocast = at::kBFloat16;
    mixed.model = [] {
      Model model = weighted_mlp(false, kTrainerWidth);
      for (LayerSpec& layer : model.layers) layer.shapes = nullptr;  // autocast changes dtypes
      return model;
    };
    return run_training(mixed);
  };
  const TrainingResult alone = run({"GPipe", 1, replicas(1, 4)});
  EXPECT_FALSE(same_bits(alone, train({"GPipe", 1, replicas(1, 4)})));
  EXPECT_TRUE(same_bits(alone, run({"1F1B", 2, replicas(2, 4)})));
  EXPECT_TRUE(same_bits(alone, run({"1F1B", 1, replicas(4, 4)})));
  // Weights and their copies are dropped while microbatches are in flight.
  for (const char* schedule : {"Interleaved1F1B", "ZBVZeroBubble"}) {
    EXPECT_TRUE(same_bits(
        alone, run({schedule, 2, with_zero3(replicas(2, 4)), "pp,dp", /*max_active_stages=*/1})))
        << schedule;
  }
}

TEST(DataParallelTest, HalfPrecisionParametersHaveTheSameBitsForEveryNumberOfReplicas) {
  const auto run = [](const Layout& layout) {
    TrainingRun half = run_of(layout);
    half.model = [] {
      Model model = weighted_mlp(false, kTrainerWidth);
      for (LayerSpec& layer : model.layers) {
        layer.make = [make = layer.make] {
          auto module = make();
          module->to(at::kBFloat16);
          return module;
        };
        layer.shapes = nullptr;
      }
      model.loss = [](const Values& outputs, const Values& batch) {
        Values wide = outputs;
        wide.set("prediction", outputs.get("prediction").to(at::kFloat));
        return weighted_error(wide, batch);
      };
      return model;
    };
    for (StepBatch& step : half.steps) {
      MicrobatchList microbatches;
      for (std::size_t m = 0; m < step.microbatches.size(); ++m) {
        Values values = step.microbatches.at(m);
        values.set("x", values.get("x").to(at::kBFloat16));
        microbatches.push_back(values);
      }
      step.microbatches = microbatches;
    }
    return run_training(half);
  };
  const TrainingResult alone = run({"GPipe", 1, replicas(1, 4)});
  EXPECT_TRUE(same_bits(alone, run({"1F1B", 2, replicas(2, 4)})));
  EXPECT_TRUE(same_bits(alone, run({"1F1B", 1, replicas(4, 4)})));
}

// Some microbatches skip a block, so its parameters get no gradient from them.
TEST(DataParallelTest, AParameterMayHaveAGradientOnSomeReplicasOnly) {
  const auto run = [](const Layout& layout) {
    TrainingRun skipping = run_of(layout);
    skipping.model = [] {
      Model model = weighted_mlp(false, kTrainerWidth);
      LayerSpec& layer = model.layers[2];
      layer.reads = {"hidden", "w"};
      layer.forward = [forward = layer.forward](torch::nn::Module& module,
                                                const std::vector<at::Tensor>& inputs) {
        if (inputs[1].item<bool>()) return std::vector<at::Tensor>{inputs[0].clone()};
        return forward(module, {inputs[0]});
      };
      layer.shapes = nullptr;
      model.loss = squared_error;
      return model;
    };
    for (StepBatch& step : skipping.steps) {
      for (std::size_t m = 0; m < step.counts.size(); ++m)
        step.counts[m] = step.microbatches.at(m).get("y").numel();
    }
    return run_training(skipping);
  };
  // Microbatches 1 and 2 run the block. Both belong to replica 0.
  const TrainingResult alone = run({"GPipe", 1, replicas(1, 4)});
  EXPECT_TRUE(same_bits(alone, run({"1F1B", 1, replicas(2, 4)})));
  EXPECT_TRUE(same_bits(alone, run({"1F1B", 1, replicas(4, 4)})));
  EXPECT_TRUE(same_bits(alone, run({"1F1B", 2, replicas(2, 4)})));
}

TEST(DataParallelTest, WithTwoReplicasTheFastSumIsThatOfTwoShards) {
  DataParallel fast = replicas(2, 0);
  fast.reduction = Reduction::kFast;
  EXPECT_TRUE(same_bits(train({"1F1B", 2, replicas(2, 2)}), train({"1F1B", 2, fast})));
}

void expect_about_the_same(const TrainingResult& a, const TrainingResult& b) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, weight] : a.weights)
    EXPECT_TRUE(at::allclose(weight, b.weights.at(name), 1e-4, 1e-5)) << name;
  for (std::size_t i = 0; i < a.reports.size(); ++i)
    EXPECT_NEAR(a.reports[i].loss, b.reports[i].loss, 1e-5);
}

TEST(DataParallelTest, FastSumsAndSumsOfSingleMicrobatchesComeToTheSameButForRounding) {
  const TrainingResult exact = train({"1F1B", 1, replicas(4, 4)});
  for (const bool fast : {true, false}) {
    for (const bool per_microbatch : {true, false}) {
      if (!fast && !per_microbatch) continue;
      DataParallel how = replicas(4, 0);
      how.reduction = fast ? Reduction::kFast : Reduction::kExact;
      how.per_microbatch = per_microbatch;
      expect_about_the_same(exact, train({"1F1B", 1, how}));
      how.degree = 2;
      expect_about_the_same(exact, train({"ZBVZeroBubble", 2, how}));
    }
  }
}

TEST(DataParallelTest, EvaluationsOfReplicasAreThoseOfOne) {
  std::mutex mutex;
  std::vector<std::vector<double>> sums;
  const auto evaluate = [&](const Layout& layout) {
    TrainingRun run = run_of(layout);
    const Mesh mesh = run.program.mesh;
    const StepBatch all = uneven_steps(1, 3, kTrainerWidth).front();
    run.after_steps = [&, mesh](RankTrainer& trainer, Transport& transport) {
      // The first replica gets two microbatches, the second gets one, the others none.
      StepBatch own;
      own.step = all.step;
      const int replica = replica_of(mesh, transport.rank());
      const bool alone = num_replicas(mesh) == 1;
      own.first_microbatch = alone ? 0 : std::min(2 * replica, 3);
      const std::size_t end = alone ? 3 : std::min<std::size_t>(3, own.first_microbatch + 2);
      for (auto m = static_cast<std::size_t>(own.first_microbatch); m < end; ++m) {
        own.microbatches.push_back(all.microbatches.at(m));
        own.counts.push_back(all.counts[m]);
      }
      own.total_count = 3;
      const auto losses = trainer.evaluate(own);
      const std::lock_guard lock(mutex);
      std::vector<double>& of_rank = sums.emplace_back();
      for (const MicrobatchLoss& loss : losses) of_rank.push_back(loss.sum);
    };
    run_training(run);
  };
  for (const Layout& layout :
       {Layout{"1F1B", 1, replicas(1, 4)}, Layout{"1F1B", 2, replicas(2, 4)},
        Layout{"1F1B", 1, replicas(4, 4)}, Layout{"1F1B", 1, with_zero3(replicas(4, 4))}})
    evaluate(layout);
  ASSERT_EQ(sums.size(), 13U);
  ASSERT_EQ(sums.front().size(), 3U);
  for (const auto& of_rank : sums) EXPECT_EQ(of_rank, sums.front());
}

TEST(DataParallelTest, TheFirstPlaceThatIsNotFiniteIsNamedByItsRankAndMicrobatchOfAll) {
  TrainingRun run = run_of({"1F1B", 2, replicas(2, 4)});
  at::Tensor x = run.steps[0].microbatches.at(5).get("x");
  x.fill_(std::numeric_limits<float>::infinity());
  const Error error = error_of([&] { run_training(run); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFinite) << error.what();
  // In the rank order pp,dp, rank 1 is stage 0 of replica 1.
  EXPECT_NE(std::string(error.what()).find("stage 0 (rank 1), microbatch 5"), std::string::npos)
      << error.what();
}

// The loss of microbatch 5 is finite, but its gradient is not.
TEST(DataParallelTest, AGradientThatIsNotFiniteIsNamedByItsMicrobatchWithAnyNumberOfShards) {
  for (const Layout& layout : {Layout{"1F1B", 1, replicas(1, 8)}, Layout{"1F1B", 1, replicas(1, 2)},
                               Layout{"1F1B", 1, replicas(2, 4)}}) {
    TrainingRun run = run_of(layout);
    run.model = [] {
      Model model = weighted_mlp(false, kTrainerWidth);
      model.loss = [](const Values& outputs, const Values& batch) {
        const at::Tensor prediction = outputs.get("prediction");
        const bool spoils = batch.get("x").flatten()[0].item<float>() == 7.0f;
        if (spoils && prediction.requires_grad()) {
          prediction.register_hook([](const at::Tensor& gradient) { return gradient * HUGE_VALF; });
        }
        return weighted_error(outputs, batch);
      };
      return model;
    };
    at::Tensor x = run.steps[0].microbatches.at(5).get("x");
    x.flatten()[0].fill_(7.0f);
    const Error error = error_of([&] { run_training(run); });
    EXPECT_EQ(error.kind(), ErrorKind::kNotFinite) << error.what();
    const std::string what = error.what();
    EXPECT_EQ(what.rfind("the gradient of '", 0), 0U) << what;
    EXPECT_NE(what.find("microbatch 5"), std::string::npos) << layout << ": " << what;
  }
}

TEST(DataParallelTest, ABatchMustSayWhereItStandsAndWhatAllCount) {
  const auto refused = [](const std::function<void(StepBatch&)>& spoil) {
    const Layout layout{"1F1B", 1, replicas(2, 2)};
    TrainingRun run = run_of(layout);
    const Mesh mesh = run.program.mesh;
    run.before_steps = [&, mesh](RankTrainer& trainer, Transport& transport) {
      StepBatch own = batch_of_rank(run.steps.front(), mesh, transport.rank());
      spoil(own);
      trainer.step(own, 0.1);
    };
    return error_of([&] { run_training(run); });
  };
  const Error first = refused([](StepBatch& batch) { batch.first_microbatch = 0; });
  EXPECT_EQ(first.kind(), ErrorKind::kUsage);
  EXPECT_NE(std::string(first.what()).find("replica 1 starts at 4"), std::string::npos)
      << first.what();
  const Error count = refused([](StepBatch& batch) { batch.total_count.reset(); });
  EXPECT_NE(std::string(count.what()).find("total_count"), std::string::npos) << count.what();
}

TEST(DataParallelTest, ReplicasThatTheProgramDoesNotHaveAreRefused) {
  TrainingRun run = run_of({"1F1B", 1, replicas(2, 2)});
  run.options.data_parallel.degree = 1;
  const Error error = error_of([&] { run_training(run); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_NE(std::string(error.what()).find("the program's mesh has 2 replicas"), std::string::npos)
      << error.what();
}

// ---- sharded state ----

TEST(DataParallelTest, ShardedOptimizerStateHasTheBitsOfWholeState) {
  for (const RunOf& what : {RunOf{}, RunOf{.tied = true}, RunOf{.width = 136, .num_steps = 2}}) {
    const TrainingResult alone = train({"GPipe", 1, replicas(1, 4)}, what);
    for (const Layout& layout :
         {Layout{"1F1B", 1, replicas(2, 4)}, Layout{"1F1B", 1, replicas(4, 4)},
          Layout{"ZBVZeroBubble", 2, replicas(2, 4)}, Layout{"1F1B", 2, replicas(2, 4), "dp,pp"}}) {
      Layout sharded = layout;
      sharded.data_parallel.zero1 = true;
      EXPECT_TRUE(same_bits(alone, train(sharded, what))) << sharded << ", width " << what.width;
    }
  }
}

TEST(DataParallelTest, ShardedStateOfSgdAndOfOtherReductionsIsThatOfWholeState) {
  const auto run = [](DataParallel how, OptimizerKind kind) {
    TrainingRun some = run_of({"1F1B", 1, how});
    some.options.optimizer.kind = kind;
    return run_training(some);
  };
  const DataParallel exact = replicas(2, 2);
  EXPECT_TRUE(
      same_bits(run(exact, OptimizerKind::kSgd), run(with_zero1(exact), OptimizerKind::kSgd)));
  DataParallel fast = replicas(4, 0);
  fast.reduction = Reduction::kFast;
  EXPECT_TRUE(
      same_bits(run(fast, OptimizerKind::kAdamW), run(with_zero1(fast), OptimizerKind::kAdamW)));
  DataParallel single = replicas(4, 0);
  single.per_microbatch = true;
  EXPECT_TRUE(same_bits(run(single, OptimizerKind::kAdamW),
                        run(with_zero1(single), OptimizerKind::kAdamW)));
}

TEST(DataParallelTest, ShardedStateFallsAsTheReplicasGrow) {
  const RunOf wide{.width = 136, .num_steps = 1};
  const auto bytes = [&](const DataParallel& how) {
    TrainingRun run = run_of({"1F1B", 1, how}, wide);
    std::mutex mutex;
    std::vector<std::int64_t> of_rank;
    run.after_steps = [&](RankTrainer& trainer, Transport&) {
      const std::lock_guard lock(mutex);
      of_rank.push_back(trainer.optimizer().state_bytes());
    };
    run_training(run);
    return of_rank;
  };
  const std::int64_t whole = bytes(replicas(1, 4)).front();
  for (const int degree : {2, 4}) {
    std::int64_t all = 0;
    for (const std::int64_t own : bytes(with_zero1(replicas(degree, 4)))) {
      // The sizes may differ by one block per moment, plus the step counts.
      EXPECT_NEAR(static_cast<double>(own), static_cast<double>(whole) / degree,
                  2 * 16384 * 4 + 400);
      all += own;
    }
    EXPECT_NEAR(static_cast<double>(all), static_cast<double>(whole), 400 * degree);
  }
}

TEST(DataParallelTest, ShardedParametersHaveTheBitsOfWholeOnes) {
  for (const RunOf& what : {RunOf{}, RunOf{.tied = true}, RunOf{.width = 136, .num_steps = 2}}) {
    const TrainingResult alone = train({"GPipe", 1, replicas(1, 4)}, what);
    for (const Layout& layout :
         {Layout{"1F1B", 1, replicas(2, 4)}, Layout{"1F1B", 1, replicas(4, 4)},
          Layout{"ZBVZeroBubble", 2, replicas(2, 4)}, Layout{"Interleaved1F1B", 2, replicas(2, 4)},
          Layout{"GPipe", 2, replicas(2, 4), "dp,pp"},
          // These layouts drop stages and gather them again between forward and backward.
          Layout{"ZBVZeroBubble", 2, replicas(2, 4), "pp,dp", 1},
          Layout{"LoopedBFS", 1, replicas(2, 4), "pp,dp", 1},
          Layout{"Interleaved1F1B", 2, replicas(2, 4), "pp,dp", 1}}) {
      Layout sharded = layout;
      sharded.data_parallel.zero3 = true;
      EXPECT_TRUE(same_bits(alone, train(sharded, what))) << sharded << ", width " << what.width;
    }
  }
}

TEST(DataParallelTest, FrozenParametersAreShardedToo) {
  const auto run = [](const DataParallel& how) {
    TrainingRun frozen = run_of({"1F1B", 1, how}, {.width = 136, .num_steps = 2});
    frozen.model = [] {
      Model model = weighted_mlp(false, 136);
      for (const std::size_t layer : {0, 2}) {
        model.layers[layer].make = [make = model.layers[layer].make] {
          auto module = make();
          for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
          return module;
        };
      }
      return model;
    };
    std::mutex mutex;
    std::int64_t most = 0;
    frozen.after_steps = [&](RankTrainer& trainer, Transport&) {
      std::int64_t own = 0;
      for (const ParameterInfo& info : trainer.parameters())
        own += static_cast<std::int64_t>(info.tensor.nbytes());
      const std::lock_guard lock(mutex);
      most = std::max(most, own);
    };
    const TrainingResult result = run_training(frozen);
    return std::pair(result, most);
  };
  const auto [whole, all_bytes] = run(replicas(2, 4));
  const auto [sharded, own_bytes] = run(with_zero3(replicas(2, 4)));
  EXPECT_TRUE(same_bits(whole, sharded));
  EXPECT_NEAR(static_cast<double>(own_bytes), static_cast<double>(all_bytes) / 2,
              2.0 * 16384 * sizeof(float));
}

TEST(DataParallelTest, BetweenStepsARankHoldsItsOwnBlocksAlone) {
  const RunOf wide{.width = 136, .num_steps = 1};
  const auto live = [&](const DataParallel& how) {
    TrainingRun run = run_of({"Interleaved1F1B", 2, how}, wide);
    MemoryLedger ledger(run.program.mesh.num_ranks());
    run.ledger = &ledger;
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(run.program.mesh.num_ranks()));
    run.before_steps = [&](RankTrainer&, Transport& transport) {
      bytes[static_cast<std::size_t>(transport.rank())] = ledger.live_bytes(transport.rank());
    };
    run_training(run);
    return *std::max_element(bytes.begin(), bytes.end());
  };
  const std::int64_t whole = live(replicas(1, 4)), sharded = live(with_zero3(replicas(4, 4)));
  // The sizes may differ by one block each of the parameters and the two moments.
  EXPECT_LT(sharded, whole / 4 + 3 * 16384 * 4);
}

// ---- saving ----

TrainingRun part_of(const Layout& layout, const RunOf& what, std::size_t first, std::size_t last,
                    const std::string& from, const std::string& to) {
  TrainingRun run = run_of(layout, what);
  run.steps = {run.steps.begin() + static_cast<std::ptrdiff_t>(first),
               run.steps.begin() + static_cast<std::ptrdiff_t>(last)};
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
      target.head.step = static_cast<std::int64_t>(last);
      const SaveOutcome outcome =
          save_checkpoint(target, PipelineControl(trainer.pipeline()).state(), transport.world());
      ASSERT_FALSE(outcome.error) << outcome.error->what();
    };
  }
  return run;
}

TEST(DataParallelTest, WhatOneLayoutSavedAnotherGoesOnFrom) {
  const TempDirectory folder;
  const RunOf what{.tied = true, .width = 136, .num_steps = 10};
  const TrainingResult whole = train({"GPipe", 1, replicas(1, 4)}, what);
  const std::vector<Layout> layouts = {{"1F1B", 4, replicas(1, 4)},
                                       {"1F1B", 2, replicas(2, 4)},
                                       {"1F1B", 1, with_zero1(replicas(2, 4))},
                                       {"GPipe", 1, replicas(1, 4)},
                                       {"1F1B", 1, with_zero1(replicas(4, 4))},
                                       {"ZBVZeroBubble", 2, replicas(2, 4), "dp,pp"},
                                       {"1F1B", 2, with_zero1(replicas(2, 4)), "dp,pp"},
                                       {"Interleaved1F1B", 2, with_zero3(replicas(2, 4))},
                                       {"1F1B", 1, with_zero3(replicas(4, 4)), "dp,pp"},
                                       {"GPipe", 2, replicas(1, 4)}};
  std::vector<StepResult> reports;
  TrainingResult last;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    last = run_training(
        part_of(layouts[i], what, i, i + 1, i == 0 ? "" : folder / "saved", folder / "saved"));
    reports.insert(reports.end(), last.reports.begin(), last.reports.end());
  }
  last.reports = std::move(reports);
  EXPECT_TRUE(same_bits(whole, last));
  Checkpoint(folder / "saved").verify();
}

// ---- public interface ----

struct DoorResult {
  std::vector<double> losses, norms;
  std::map<std::string, at::Tensor> weights;
};

DoorResult through_the_door(int ranks, const DataParallel& how, const std::string& save_to = "",
                            const std::string& load_from = "") {
  Model model = mlp(/*tied=*/true);
  model.count = [](const Values& batch) { return batch.get("y").numel(); };
  PipelineOptions options;
  options.num_ranks = ranks;
  options.schedule = "1F1B";
  options.num_microbatches = 8 / how.degree;
  options.data_parallel = how;
  DoorResult result;
  std::mutex mutex;
  run(model, options,
      [&](Pipeline& pipeline) {
        EXPECT_EQ(pipeline.num_ranks(), ranks * how.degree);
        EXPECT_EQ(pipeline.num_replicas(), how.degree);
        torch::optim::AdamW optimizer(pipeline.parameters(), torch::optim::AdamWOptions(1e-2));
        if (!load_from.empty()) pipeline.load(load_from, {.optimizers = {&optimizer}});
        DoorResult own;
        for (int step = 0; step < 3; ++step) {
          const at::Tensor x =
              at::sin(at::arange(16 * kTrainerWidth, at::kFloat) * 0.3 + step).view({16, -1});
          const at::Tensor rows = x.tensor_split(how.degree)[pipeline.replica()];
          const StepResult trained = pipeline.train_step({{"x", rows}, {"y", at::cos(2 * rows)}});
          EXPECT_EQ(trained.microbatch_losses.size(), 8U);
          own.losses.push_back(trained.loss);
          own.norms.push_back(pipeline.clip_grad_norm(0.5));
          optimizer.step();
          optimizer.zero_grad();
          own.losses.push_back(pipeline.eval_step({{"x", rows}, {"y", at::cos(2 * rows)}}).loss);
        }
        if (!save_to.empty()) pipeline.save(save_to, {.optimizers = {&optimizer}});
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(result.losses.empty() || own.losses == result.losses);
        EXPECT_TRUE(result.norms.empty() || own.norms == result.norms);
        result.losses = own.losses;
        result.norms = own.norms;
        for (const ParameterInfo& info : pipeline.named_parameters()) {
          const auto [known, added] =
              result.weights.emplace(info.name, info.tensor.detach().clone());
          EXPECT_TRUE(added || at::equal(known->second, info.tensor)) << info.name;
        }
      },
      {.seed = 3});
  return result;
}

void expect_same(const DoorResult& a, const DoorResult& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, weight] : a.weights)
    EXPECT_TRUE(at::equal(weight, b.weights.at(name))) << name;
}

TEST(DataParallelTest, ThroughThePipelineEveryNumberOfReplicasHasTheSameBits) {
  const DoorResult alone = through_the_door(1, replicas(1, 4));
  expect_same(alone, through_the_door(2, replicas(2, 4)));
  expect_same(alone, through_the_door(1, replicas(4, 4)));
  const TempDirectory folder;
  through_the_door(2, replicas(2, 4), folder / "saved");
  expect_same(through_the_door(1, replicas(1, 4), "", folder / "saved"),
              through_the_door(1, replicas(4, 4), "", folder / "saved"));
}

TEST(DataParallelTest, TheHookGetsTheGroupsOfTheMesh) {
  PipelineOptions options;
  options.num_ranks = 2;
  options.num_microbatches = 2;
  options.data_parallel.degree = 2;
  RunOptions hooked;
  std::atomic<int> calls{0};
  hooked.parallelize = [&](LocalChunk& chunk) {
    const auto sum_along = [&](const char* axis) {
      const Group& group = chunk.world_mesh[axis].group;
      return group.all_reduce(at::full({1}, chunk.rank, at::kLong)).wait().item<std::int64_t>();
    };
    const int place = chunk.rank / 2, replica = chunk.rank % 2;
    EXPECT_EQ(sum_along("dp_replicate"), 4 * place + 1);
    EXPECT_EQ(sum_along("pp"), 2 * replica + 2);
    EXPECT_FALSE(chunk.world_mesh["dp_shard"].group);
    ++calls;
  };
  run(
      mlp(/*tied=*/false), options, [](Pipeline&) {}, hooked);
  EXPECT_EQ(calls, 4);
}

TEST(DataParallelTest, ModulesThatAreReadyAreForOneReplica) {
  const torch::nn::Sequential net(torch::nn::Linear(kTrainerWidth, kTrainerWidth));
  Model model = from_sequential(net);
  model.inputs = {"x", "y"};
  model.loss = squared_error;
  PipelineOptions options;
  options.num_microbatches = 1;
  options.data_parallel.degree = 2;
  const Error error = error_of([&] { run(model, options, [](Pipeline&) {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  EXPECT_NE(std::string(error.what()).find("'0.weight' is one tensor on ranks"), std::string::npos)
      << error.what();
}

TEST(DataParallelTest, ThePipelineRefusesAHookBesideReplicas) {
  PipelineOptions options;
  options.num_microbatches = 2;
  options.data_parallel = replicas(2, 2);
  RunOptions hooked;
  hooked.reduction.reduce = [](int, std::optional<int>, const auto&) {};
  const Error hook = error_of([&] {
    run(
        mlp(false), options, [](Pipeline&) {}, hooked);
  });
  EXPECT_EQ(hook.kind(), ErrorKind::kUsage);
  EXPECT_NE(std::string(hook.what()).find("RunOptions::reduction"), std::string::npos);
}

}  // namespace
}  // namespace sluice::test::data_parallel_test
