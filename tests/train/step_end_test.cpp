// The planned program must run, whether sluice or the caller updates the weights.
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <mutex>

#include "base/log.h"
#include "engine/rank_threads.h"
#include "sluice/checkpoint.h"
#include "sluice/model.h"
#include "sluice/parts/saver.h"
#include "sluice/parts/transport.h"
#include "sluice/trainer.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"
#include "train/pipeline_control.h"
#include "train/trainer_support.h"

namespace sluice::test::step_end_test {
namespace {

PipelineOptions options_of(StepEnd end, int ranks = 2, const char* schedule = "1F1B") {
  PipelineOptions options;
  options.num_ranks = ranks;
  options.schedule = schedule;
  options.num_microbatches = 4;
  options.step_end = end;
  return options;
}

Model counted_mlp() {
  Model model = mlp(/*tied=*/false);
  model.count = [](const Values& batch) { return batch.get("y").numel(); };
  return model;
}

Inputs batch_of(int step, int replica = 0, int num_replicas = 1) {
  const at::Tensor x =
      at::sin(at::arange(16 * kTrainerWidth, at::kFloat) * 0.3 + step).view({16, -1});
  const at::Tensor rows = x.tensor_split(num_replicas)[static_cast<std::size_t>(replica)];
  return {{"x", rows}, {"y", at::cos(2 * rows)}};
}

// Only the modules show that the first `count` layers are frozen.
Model frozen_mlp(std::size_t count) {
  Model model = counted_mlp();
  for (std::size_t i = 0; i < count; ++i) {
    model.layers[i].make = [make = model.layers[i].make] {
      auto module = make();
      for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
      return module;
    };
  }
  return model;
}

TEST(StepEndTest, ThePlannedProgramIsTheOneThatRuns) {
  const Model model = counted_mlp();
  for (const StepEnd end : {StepEnd::kGradients, StepEnd::kUpdate}) {
    const PipelineOptions options = options_of(end);
    const Plan plan = plan_pipeline(describe(model.layers), options);
    run(model, options, [&](Pipeline& pipeline) {
      EXPECT_EQ(pipeline.program().ranks, plan.program.ranks);
      EXPECT_EQ(pipeline.plan().simulation.makespan, plan.simulation.makespan);
    });
    const bool has_update = plan.program.ranks[0].back().kind == ActionKind::kUpdate;
    EXPECT_EQ(has_update, end == StepEnd::kUpdate);
  }
}

TEST(StepEndTest, ARunPlansByWhatTheModulesTrain) {
  const Model model = frozen_mlp(4);
  run(model, options_of(StepEnd::kGradients), [&](Pipeline& pipeline) {
    EXPECT_EQ(pipeline.plan().partition.stages[0].backward, StageBackward::kNone);
    EXPECT_EQ(pipeline.plan().partition.stages[1].backward, StageBackward::kWeights);
    for (const Action& action : pipeline.program().ranks[0])
      EXPECT_NE(action.kind, ActionKind::kBackward) << to_text(action);
    EXPECT_EQ(pipeline.plan().ranks.size(), 2U);
    pipeline.parameters();
    pipeline.train_step(batch_of(1));
  });
}

std::vector<double> losses_ahead(const Model& model, const PipelineOptions& options) {
  const Plan plan = plan_pipeline(describe(model.layers), options);
  std::vector<double> losses;
  run_ranks(make_local_transports(2), 1, nullptr, [&](Transport& transport) {
    Pipeline pipeline(model, plan, transport, {.seed = 3});
    const auto parameters = pipeline.parameters();
    std::optional<torch::optim::SGD> optimizer;
    if (!parameters.empty()) optimizer.emplace(parameters, 0.1);
    for (int step = 1; step <= 3; ++step) {
      const double loss = pipeline.train_step(batch_of(step)).loss;
      if (transport.rank() == 0) losses.push_back(loss);
      if (!optimizer) continue;
      optimizer->step();
      optimizer->zero_grad();
    }
  });
  return losses;
}

TEST(StepEndTest, APlanMadeAheadIsToldWhatTrains) {
  const Model model = frozen_mlp(4);
  PipelineOptions options = options_of(StepEnd::kGradients);
  const Error error = error_of([&] { losses_ahead(model, options); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_NE(std::string(error.what()).find("layer 'first' is frozen"), std::string::npos)
      << error.what();
  for (const char* part : {"Plan::partition", "frozen_layers"})
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();

  options.frozen_layers = {"first", "block0", "block1", "block2"};
  const std::vector<double> losses = losses_ahead(model, options);
  EXPECT_EQ(losses.size(), 3U);
  options.frozen_layers = {"first"};
  EXPECT_NE(std::string(error_of([&] { losses_ahead(model, options); }).what()).find("is frozen"),
            std::string::npos);
  options.frozen_layers = {"furst"};
  EXPECT_NE(std::string(error_of([&] { losses_ahead(model, options); }).what())
                .find("did you mean 'first'"),
            std::string::npos);
  // The plan must not freeze a layer that trains.
  options.frozen_layers = {"first", "block0", "block1", "block2"};
  EXPECT_NE(std::string(error_of([&] { losses_ahead(frozen_mlp(3), options); }).what())
                .find("layer 'block2' trains"),
            std::string::npos);
}

TEST(StepEndTest, EachClassRefusesPlansOfTheOther) {
  const Model model = counted_mlp();
  const auto refusal = [&](StepEnd end, const std::function<void(Pipeline&)>& body) {
    const Error error = error_of([&] { run(model, options_of(end), body); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    return std::string(error.what());
  };
  EXPECT_NE(refusal(StepEnd::kUpdate, [](Pipeline& p) { p.train_step(batch_of(1)); })
                .find("end with an update"),
            std::string::npos);
  EXPECT_NE(refusal(StepEnd::kGradients, [](Pipeline& p) { Trainer(p, {}); })
                .find("step_end = StepEnd::kUpdate"),
            std::string::npos);
  EXPECT_NE(refusal(StepEnd::kUpdate,
                    [](Pipeline& p) {
                      Trainer one(p, {});
                      Trainer two(p, {});
                    })
                .find("has a trainer already"),
            std::string::npos);
  EXPECT_NE(refusal(StepEnd::kUpdate,
                    [](Pipeline& p) {
                      p.eval_step(batch_of(1));  // before any training
                      Trainer(p, {}).step(batch_of(1), 0.1);
                      Trainer late(p, {});
                    })
                .find("has made a training step already"),
            std::string::npos);
}

struct Trained {
  std::vector<double> losses, norms;
  std::map<std::string, at::Tensor> weights;
  friend bool operator==(const Trained& a, const Trained& b) {
    if (a.losses != b.losses || a.norms != b.norms || a.weights.size() != b.weights.size())
      return false;
    for (const auto& [name, weight] : a.weights)
      if (!b.weights.contains(name) || !at::equal(weight, b.weights.at(name))) return false;
    return true;
  }
};

Trained trained_by_us(int ranks, const DataParallel& how, const char* schedule = "1F1B",
                      const std::string& load = "", const std::string& save = "") {
  PipelineOptions options = options_of(StepEnd::kUpdate, ranks, schedule);
  options.num_microbatches = 8 / how.degree;
  options.data_parallel = how;
  Trained result;
  std::mutex mutex;
  run(counted_mlp(), options,
      [&](Pipeline& pipeline) {
        Trainer trainer(pipeline, {.lr = 0.01, .max_norm = 0.5});
        if (!load.empty()) pipeline.load(load);
        Trained own;
        for (int step = 1; step <= 4; ++step) {
          const StepResult of_step =
              trainer.step(batch_of(step, pipeline.replica(), pipeline.num_replicas()), 0.01);
          own.losses.push_back(of_step.loss);
          own.norms.push_back(of_step.grad_norm);
        }
        if (!save.empty()) pipeline.save(save);
        const RankState state = PipelineControl(pipeline).state(pipeline.world());
        const std::lock_guard lock(mutex);
        for (const auto& [name, value] : state.parameters) own.weights[name] = value.clone();
        result.losses = own.losses;
        result.norms = own.norms;
        for (auto& [name, value] : own.weights) result.weights.insert_or_assign(name, value);
      },
      {.seed = 3});
  return result;
}

TEST(StepEndTest, TheTrainerHasTheSameBitsWithReplicasAndShardsOfAnyKind) {
  DataParallel four;
  four.shards = 4;
  const Trained alone = trained_by_us(1, four, "GPipe");
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  EXPECT_GE(alone.weights.size(), mlp(false).layers.size());
  for (const bool zero1 : {false, true}) {
    for (const bool zero3 : {false, true}) {
      if (zero1 && zero3) continue;
      DataParallel two = four;
      two.degree = 2;
      two.zero1 = zero1;
      two.zero3 = zero3;
      for (const auto& [ranks, schedule] :
           {std::pair(1, "GPipe"), std::pair(2, "1F1B"), std::pair(2, "ZBVZeroBubble")}) {
        EXPECT_TRUE(trained_by_us(ranks, two, schedule) == alone)
            << ranks << " " << schedule << (zero1 ? " zero1" : "") << (zero3 ? " zero3" : "");
      }
    }
  }
}

TEST(StepEndTest, ACheckpointOfATrainerHoldsItsOptimizerWhateverTheLayout) {
  const TempDirectory folder;
  DataParallel four, sharded;
  four.shards = sharded.shards = 4;
  sharded.degree = 2;
  sharded.zero3 = true;
  trained_by_us(2, sharded, "1F1B", "", folder / "saved");
  const Trained resumed = trained_by_us(1, four, "GPipe", folder / "saved");
  EXPECT_TRUE(trained_by_us(2, sharded, "ZBVZeroBubble", folder / "saved") == resumed);
  trained_by_us(1, four, "GPipe", "", folder / "again");
  EXPECT_TRUE(trained_by_us(2, four, "1F1B", folder / "again") == resumed);
}

TEST(StepEndTest, ALossThatIsNotFiniteIsRefusedOnRequestBeforeGradientsAreTouched) {
  const Model model = counted_mlp();
  Inputs broken = batch_of(1);
  const at::Tensor x = at::full({16, kTrainerWidth}, std::numeric_limits<float>::infinity());
  const auto body = [&](Pipeline& pipeline) {
    const auto parameters = pipeline.parameters();
    try {
      pipeline.train_step({{"x", x}, {"y", x}});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNotFinite);
      for (const at::Tensor& parameter : parameters) EXPECT_FALSE(parameter.grad().defined());
      throw;
    }
  };
  const Error error = error_of(
      [&] { run(model, options_of(StepEnd::kGradients), body, {.requires_finite = true}); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFinite);
  for (const char* part : {"stage 0 (rank 0), microbatch 0", "lower `lr` or `max_norm`"})
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

TEST(StepEndTest, FactoriesWeightsAreKeptOnRequestAlsoWhereTheyAreSharded) {
  const auto model = [] {
    Model own = counted_mlp();
    double value = 0;
    for (LayerSpec& layer : own.layers) {
      layer.make = [make = layer.make, value = (value += 0.01)] {
        auto module = make();
        const at::NoGradGuard no_grad;
        for (at::Tensor& parameter : module->parameters()) parameter.fill_(value);
        return module;
      };
    }
    return own;
  };
  for (const bool zero3 : {false, true}) {
    PipelineOptions options = options_of(StepEnd::kUpdate);
    options.num_microbatches = 4;
    options.data_parallel.degree = zero3 ? 2 : 1;
    options.data_parallel.zero3 = zero3;
    run(model(), options,
        [&](Pipeline& pipeline) {
          for (const ParameterInfo& parameter : pipeline.named_parameters()) {
            const double expected = 0.01 * (parameter.layer + 1);
            EXPECT_TRUE(at::allclose(parameter.tensor, at::full_like(parameter.tensor, expected)))
                << parameter.name;
          }
        },
        {.weights = InitialWeights::kFactory});
  }
}

// The vector keeps its values from the constructor.
struct ScaledImpl : torch::nn::Module {
  explicit ScaledImpl(std::int64_t width)
      : linear(register_module("linear", torch::nn::Linear(width, width))),
        scale(register_parameter("scale", at::linspace(0.5, 1.5, width))) {}
  at::Tensor forward(const at::Tensor& x) { return linear(x) * scale; }

  torch::nn::Linear linear;
  at::Tensor scale;
};

TEST(StepEndTest, NumbersThatAFactorySetsAndNothingDrawsAreTheSameWhenParametersAreSharded) {
  const auto weights_of = [](int replicas) {
    Model model = counted_mlp();
    model.layers[3] = layer_of<ScaledImpl>("scaled", kTrainerWidth);
    PipelineOptions options = options_of(StepEnd::kUpdate, 1);
    options.num_microbatches = 4 / replicas;
    options.data_parallel.shards = 2;
    options.data_parallel.degree = replicas;
    options.data_parallel.zero3 = replicas > 1;
    std::map<std::string, at::Tensor> weights;
    run(model, options, [&](Pipeline& pipeline) {
      const auto state = pipeline.state_dict();
      if (pipeline.rank() != 0) return;
      for (const auto& [name, tensor] : state) weights[name] = tensor.clone();
    });
    return weights;
  };
  const auto alone = weights_of(1), sharded = weights_of(2);
  ASSERT_EQ(sharded.size(), alone.size());
  EXPECT_TRUE(at::equal(alone.at("scaled.scale"), at::linspace(0.5, 1.5, kTrainerWidth)));
  for (const auto& [name, tensor] : alone) EXPECT_TRUE(at::equal(sharded.at(name), tensor)) << name;
}

Error error_with(const std::function<void(Pipeline&)>& body,
                 const std::function<OptimizerOptions(int rank)>& options,
                 const RunOptions& run_options = {}) {
  return error_of([&] {
    run(
        counted_mlp(), options_of(StepEnd::kUpdate),
        [&](Pipeline& pipeline) {
          Trainer trainer(pipeline, options(pipeline.rank()));
          body(pipeline);
        },
        run_options);
  });
}

OptimizerOptions sgd(int /*rank*/ = 0) { return {.kind = OptimizerKind::kSgd}; }

// Does not check the rank, because any rank may fail first.
void expect_said(const Error& error, ErrorKind kind, const std::vector<std::string>& parts) {
  EXPECT_EQ(error.kind(), kind) << error.what();
  for (const std::string& part : parts)
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

TEST(StepEndTest, ACheckpointWithTheStateOfAnotherKindOfOptimizerIsRefusedByName) {
  const TempDirectory folder;
  DataParallel four;
  four.shards = 4;
  trained_by_us(1, four, "GPipe", "", folder / "adamw");
  run(counted_mlp(), options_of(StepEnd::kGradients), [&](Pipeline& pipeline) {
    torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.1));
    pipeline.save(folder / "torch", {.optimizers = {&optimizer}});
  });
  const auto load = [&](Pipeline& p) { p.load(folder / "adamw"); };
  const auto load_state = [&](Pipeline& p) {
    PipelineControl(p).load_state(Checkpoint(folder / "adamw"));
  };
  const auto load_torch = [&](Pipeline& p) { p.load(folder / "torch"); };
  for (const auto& body : {std::function<void(Pipeline&)>(load), {load_state}}) {
    expect_said(error_with(body, sgd), ErrorKind::kCheckpoint,
                {"the state of AdamW, not of SGD", "the `kind` of the run"});
  }
  expect_said(error_with(load_torch, [](int) { return OptimizerOptions(); }),
              ErrorKind::kCheckpoint, {"the state of SGD, not of AdamW"});
}

TEST(StepEndTest, ParametersWhoseStateStartsAtZeroAreAWarning) {
  const TempDirectory folder;
  std::mutex mutex;
  std::vector<std::string> said;
  set_log_sink([&](LogLevel level, std::string_view message) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::kWarning) said.emplace_back(message);
  });
  const auto run_with = [](const Model& model, const std::function<void(Pipeline&)>& body) {
    run(model, options_of(StepEnd::kUpdate), [&](Pipeline& pipeline) {
      Trainer trainer(pipeline, {});
      body(pipeline);
    });
  };
  run_with(frozen_mlp(2), [&](Pipeline& pipeline) { pipeline.save(folder / "frozen"); });
  run_with(counted_mlp(), [&](Pipeline& pipeline) { pipeline.save(folder / "whole"); });
  EXPECT_TRUE(said.empty()) << said.front();
  run_with(counted_mlp(), [&](Pipeline& pipeline) { pipeline.load(folder / "whole"); });
  EXPECT_TRUE(said.empty()) << said.front();
  run_with(counted_mlp(), [&](Pipeline& pipeline) { pipeline.load(folder / "frozen"); });
  set_log_sink({});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("no optimizer state for 8 parameters"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("'block0.up.weight', 'first.bias', 'first.weight'"), std::string::npos)
      << said[0];
}

TEST(StepEndTest, TheStepOfTheWeightsIsThatOfTheCheckpointThatWasLoaded) {
  const TempDirectory folder;
  run(counted_mlp(), options_of(StepEnd::kUpdate), [&](Pipeline& pipeline) {
    Trainer trainer(pipeline, {});
    for (int step = 1; step <= 3; ++step) trainer.step(batch_of(step), 0.01);
    pipeline.save(folder / "three");
  });
  run(counted_mlp(), options_of(StepEnd::kUpdate), [&](Pipeline& pipeline) {
    Trainer trainer(pipeline, {});
    EXPECT_EQ(trainer.weights_step(), 0);
    pipeline.load(folder / "three");
    EXPECT_EQ(trainer.weights_step(), 3);
    trainer.step(batch_of(4), 0.01);
    EXPECT_EQ(trainer.weights_step(), 4);
  });
}

TEST(StepEndTest, OptimizerOptionsThatDifferBetweenRanksAreRefusedOnEveryRank) {
  const std::vector<std::pair<OptimizerOptions, std::string>> others = {
      {{.kind = OptimizerKind::kSgd}, "`OptimizerOptions::kind` is AdamW on rank 0, but SGD"},
      {{.betas = {0.9, 0.5}}, "`OptimizerOptions::betas` is 0.9, 0.95 on rank 0, but 0.9, 0.5"},
      {{.weight_decay = 0}, "`OptimizerOptions::weight_decay` is 0.1 on rank 0, but 0 on rank 1"},
      {{.no_decay = {"*"}}, "`OptimizerOptions::no_decay` is '' on rank 0, but '*' on rank 1"},
      {{.max_norm = 2}, "`OptimizerOptions::max_norm` is 1 on rank 0, but 2 on rank 1"}};
  for (const auto& [other, said] : others) {
    std::atomic<int> num_refused = 0;
    const Error error = error_of([&, &other = other, &said = said] {
      run(counted_mlp(), options_of(StepEnd::kUpdate, 3), [&](Pipeline& pipeline) {
        try {
          Trainer trainer(pipeline, pipeline.rank() == 1 ? other : OptimizerOptions());
        } catch (const Error& own) {
          num_refused += std::string(own.what()).find(said) != std::string::npos;
          throw;
        }
      });
    });
    expect_said(error, ErrorKind::kUsage, {said, "same options"});
    EXPECT_EQ(num_refused, 3) << said;
  }
}

TEST(StepEndTest, AStepOfWeightsThatNobodyPutInIsRefused) {
  const RunOptions none{.weights = InitialWeights::kNone};
  const std::vector<std::function<void(Pipeline&)>> calls = {
      [](Pipeline& p) { p.parameters(), p.train_step(batch_of(1)); },
      [](Pipeline& p) { p.eval_step(batch_of(1)); }, [](Pipeline& p) { p.predict(batch_of(1)); }};
  for (const auto& call : calls) {
    expect_said(error_of([&] { run(counted_mlp(), options_of(StepEnd::kGradients), call, none); }),
                ErrorKind::kUsage,
                {"InitialWeights::kNone", "load_weights()", "load_state_dict()"});
  }
  const auto step = [](Pipeline& pipeline) { Trainer(pipeline, {}).step(batch_of(1), 0.1); };
  expect_said(error_of([&] { run(counted_mlp(), options_of(StepEnd::kUpdate), step, none); }),
              ErrorKind::kUsage, {"InitialWeights::kNone"});

  const TempDirectory folder;
  run(counted_mlp(), options_of(StepEnd::kGradients), [&](Pipeline& p) { p.save(folder / "ck"); });
  const std::vector<std::function<void(Pipeline&)>> remedies = {
      [](Pipeline& p) { p.load_weights([](Stage&) {}); },
      [&](Pipeline& p) { p.load(folder / "ck"); },
      [&](Pipeline& p) { PipelineControl(p).load_state(Checkpoint(folder / "ck")); },
      [](Pipeline& p) { p.load_state_dict(p.local_state_dict()); }};
  for (const auto& remedy : remedies) {
    EXPECT_NO_THROW(run(
        counted_mlp(), options_of(StepEnd::kGradients),
        [&](Pipeline& pipeline) {
          remedy(pipeline);
          calls[0](pipeline);
        },
        none));
  }
}

}  // namespace
}  // namespace sluice::test::step_end_test
