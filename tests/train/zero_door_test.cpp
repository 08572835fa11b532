#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "plan/step_program.h"
#include "sluice/checkpoint.h"
#include "sluice/model.h"
#include "sluice/parts/saver.h"
#include "sluice/trainer.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"
#include "train/pipeline_control.h"
#include "train/trainer_support.h"

namespace sluice::test::zero_door_test {
namespace {

enum class Shards { kNone, kZero1, kZero3 };
constexpr Shards kAll[] = {Shards::kNone, Shards::kZero1, Shards::kZero3};

struct Layout {
  int ranks = 1, replicas = 1;
  Shards shards = Shards::kNone;
  const char* schedule = "1F1B";
};

std::string text_of(const Layout& layout) {
  const char* shards[] = {"none", "zero1", "zero3"};
  return std::to_string(layout.ranks) + " ranks x " + std::to_string(layout.replicas) + ", " +
         shards[static_cast<int>(layout.shards)] + ", " + layout.schedule;
}

PipelineOptions options_of(const Layout& layout) {
  PipelineOptions options;
  options.num_ranks = layout.ranks;
  options.schedule = layout.schedule;
  options.num_microbatches = 8 / layout.replicas;
  options.data_parallel.degree = layout.replicas;
  options.data_parallel.shards = 4;
  options.data_parallel.zero1 = layout.shards == Shards::kZero1;
  options.data_parallel.zero3 = layout.shards == Shards::kZero3;
  return options;
}

using Optimizer = torch::optim::Optimizer;
using Made = std::unique_ptr<Optimizer>;
using Make = std::function<Made(Pipeline&)>;

template <typename Class, typename Options>
Make maker(const Options& options) {
  return [options](Pipeline& pipeline) -> Made {
    return std::make_unique<Class>(pipeline.parameters(), options);
  };
}
const Make kAdamW = maker<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-2).amsgrad(true));
const std::map<std::string, Make> kOptimizers = {
    {"AdamW", kAdamW},
    {"Adam", maker<torch::optim::Adam>(torch::optim::AdamOptions(1e-2).weight_decay(0.1))},
    {"SGD", maker<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9))},
    {"plain SGD", maker<torch::optim::SGD>(torch::optim::SGDOptions(0.1))},
    {"RMSprop",
     maker<torch::optim::RMSprop>(torch::optim::RMSpropOptions(1e-3).momentum(0.5).centered(true))},
    {"Adagrad", maker<torch::optim::Adagrad>(torch::optim::AdagradOptions(1e-2))}};

constexpr std::int64_t kWide = 192;

Model wide_mlp() {
  Model model;
  model.layers = make_user_layers(UserModel::kMlp, 2, kWide, /*dropout=*/0.1);
  model.layers.back().ties = {{"weight", "first.weight"}};
  model.inputs = {"x", "y"};
  model.outputs = {"prediction"};
  model.loss = squared_error;
  model.count = [](const Values& batch) { return batch.get("y").numel(); };
  return model;
}

Inputs batch_of(const Pipeline& pipeline, int step, at::ScalarType type = at::kFloat) {
  const at::Tensor x = at::sin(at::arange(16 * kWide, at::kFloat) * 0.3 + step).view({16, -1});
  const at::Tensor rows =
      x.tensor_split(pipeline.num_replicas())[static_cast<std::size_t>(pipeline.replica())];
  return {{"x", rows.to(type)}, {"y", at::cos(2 * rows).to(type)}};
}

struct Trained {
  std::vector<double> losses, norms;
  std::map<std::string, at::Tensor> weights;
};

void expect_same(const Trained& a, const Trained& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  ASSERT_EQ(a.weights.size(), b.weights.size()) << what;
  for (const auto& [name, weight] : a.weights)
    EXPECT_TRUE(at::equal(weight, b.weights.at(name))) << name << ", " << what;
}

struct Part {
  int first = 1, last = 3;
  std::string from = {}, to = {};
  int calls = 1;
  double max_norm = 0.5;
  at::ScalarType type = at::kFloat;
};

Trained train(const Layout& layout, const Make& make = kAdamW, const Part& part = {},
              const Model& model = wide_mlp()) {
  Trained result;
  std::mutex mutex;
  run(model, options_of(layout),
      [&](Pipeline& pipeline) {
        const Made optimizer = make(pipeline);
        pipeline.check(*optimizer);
        if (!part.from.empty()) {
          EXPECT_EQ(pipeline.load(part.from, {.optimizers = {optimizer.get()}}).step,
                    part.first - 1);
        }
        Trained own;
        for (int step = part.first; step <= part.last; ++step) {
          for (int call = 0; call < part.calls; ++call)
            own.losses.push_back(
                pipeline.train_step(batch_of(pipeline, 10 * call + step, part.type)).loss);
          if (part.calls > 1) pipeline.scale_grads_by_divisor(part.calls);
          own.norms.push_back(pipeline.clip_grad_norm(part.max_norm));
          pipeline.update(*optimizer);
          optimizer->zero_grad();
        }
        own.losses.push_back(pipeline.eval_step(batch_of(pipeline, 99, part.type)).loss);
        if (!part.to.empty()) pipeline.save(part.to, {.optimizers = {optimizer.get()}});
        const RankState state = PipelineControl(pipeline).state(pipeline.world());
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(result.losses.empty() || result.losses == own.losses);
        result.losses = own.losses;
        result.norms = own.norms;
        for (const auto& [name, value] : state.parameters) {
          const auto [known, added] = result.weights.emplace(name, value.detach().clone());
          EXPECT_TRUE(added || at::equal(known->second, value)) << name;
        }
      },
      {.seed = 3});
  return result;
}

TEST(ZeroDoorTest, EveryOptimizerHasTheSameBitsAsWithWholeParameters) {
  for (const auto& [name, make] : kOptimizers) {
    const Trained alone = train({}, make);
    EXPECT_NE(alone.losses[0], alone.losses[1]) << name;
    for (const Shards shards : kAll) {
      for (const Layout& layout : {Layout{1, 2, shards}, Layout{2, 2, shards, "ZBVZeroBubble"}})
        expect_same(alone, train(layout, make), name + ", " + text_of(layout));
    }
  }
}

TEST(ZeroDoorTest, EveryLayoutHasTheSameBits) {
  const Trained alone = train({});
  for (const Shards shards : kAll) {
    for (const Layout& layout : {Layout{1, 4, shards, "GPipe"}, Layout{2, 2, shards},
                                 Layout{2, 4, shards}, Layout{2, 2, shards, "Interleaved1F1B"}})
      expect_same(alone, train(layout), text_of(layout));
  }
}

TEST(ZeroDoorTest, StepIsTheOptimizersOwnWhereNothingIsSharded) {
  const auto losses = [](bool plain) {
    std::vector<double> result;
    run(wide_mlp(), options_of({2, 1}),
        [&](Pipeline& pipeline) {
          const Made optimizer = kAdamW(pipeline);
          for (int step = 1; step <= 3; ++step) {
            const double loss = pipeline.train_step(batch_of(pipeline, step)).loss;
            if (plain) {
              optimizer->step();
            } else {
              pipeline.update(*optimizer);
            }
            optimizer->zero_grad();
            if (pipeline.rank() == 0) result.push_back(loss);
          }
        },
        {.seed = 3});
    return result;
  };
  EXPECT_EQ(losses(true), losses(false));
}

TEST(ZeroDoorTest, GradientsAddUpOverSeveralStepsInTheBlocks) {
  const Part twice{.calls = 2, .max_norm = 0.1};
  const Trained alone = train({}, kAdamW, twice);
  for (const Shards shards : {Shards::kZero1, Shards::kZero3})
    expect_same(alone, train({2, 2, shards}, kAdamW, twice), text_of({2, 2, shards}));
}

TEST(ZeroDoorTest, ParametersAreThisReplicasOwnBlocksOnceEach) {
  const std::int64_t whole = [] {
    std::int64_t numel = 0;
    run(wide_mlp(), options_of({}), [&](Pipeline& pipeline) {
      for (const at::Tensor& parameter : pipeline.parameters()) numel += parameter.numel();
    });
    return numel;
  }();
  for (const Shards shards : {Shards::kZero1, Shards::kZero3}) {
    std::map<int, std::int64_t> of_replica;
    std::mutex mutex;
    run(wide_mlp(), options_of({1, 4, shards}), [&](Pipeline& pipeline) {
      std::set<const void*> named;
      for (const ParameterInfo& info : pipeline.named_parameters()) {
        EXPECT_EQ(info.tensor.dim(), 1) << info.name;
        EXPECT_LE(info.tensor.numel(), c10::multiply_integers(info.global_shape)) << info.name;
        EXPECT_TRUE(info.tensor.is_leaf() && info.tensor.requires_grad()) << info.name;
        named.insert(info.tensor.unsafeGetTensorImpl());
      }
      pipeline.train_step(batch_of(pipeline, 1));
      std::int64_t numel = 0;
      for (const at::Tensor& parameter : pipeline.parameters()) {
        EXPECT_TRUE(named.contains(parameter.unsafeGetTensorImpl()));
        ASSERT_TRUE(parameter.grad().defined());
        EXPECT_EQ(parameter.grad().sizes(), parameter.sizes());
        EXPECT_LE(parameter.grad().storage().nbytes(),
                  static_cast<std::size_t>(parameter.numel()) * 4);
        numel += parameter.numel();
      }
      const std::lock_guard lock(mutex);
      of_replica[pipeline.replica()] = numel;
    });
    std::int64_t sum = 0;
    for (const auto& [replica, numel] : of_replica) {
      EXPECT_LT(numel, whole / 2);
      sum += numel;
    }
    EXPECT_EQ(sum, whole);
  }
}

Model changed(const std::function<void(std::size_t, torch::nn::Module&)>& change) {
  Model model = wide_mlp();
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    model.layers[i].make = [make = model.layers[i].make, change, i] {
      auto module = make();
      change(i, *module);
      return module;
    };
  }
  return model;
}

TEST(ZeroDoorTest, AReplicaMayOwnNothing) {
  const Model model = changed([](std::size_t layer, torch::nn::Module& module) {
    for (auto& item : module.named_parameters())
      item.value().set_requires_grad(layer == 1 && item.key() == "norm.bias");
  });
  const Trained alone = train({1, 1}, kAdamW, {}, model);
  EXPECT_NE(alone.losses[0], alone.losses[3]);
  for (const Shards shards : {Shards::kZero1, Shards::kZero3}) {
    const Layout layout{2, 4, shards};
    expect_same(alone, train(layout, kAdamW, {}, model), text_of(layout));
    const TempDirectory folder;
    train(layout, kAdamW, {.last = 2, .to = folder / "ck"}, model);
    const Trained resumed = train({1, 1}, kAdamW, {3, 3, folder / "ck"}, model);
    EXPECT_EQ(resumed.losses.front(), alone.losses[2]);
    EXPECT_EQ(resumed.losses.back(), alone.losses[3]);
  }
  // If sluice does the update, every replica shows whole parameters.
  PipelineOptions ours = options_of({1, 4, Shards::kZero1});
  ours.step_end = StepEnd::kUpdate;
  run(model, ours, [](Pipeline& pipeline) {
    ASSERT_EQ(pipeline.parameters().size(), 1U);
    EXPECT_EQ(pipeline.parameters().front().numel(), kWide);
  });
}

TEST(ZeroDoorTest, HalfPrecisionAddsUpInFloat32) {
  const Model model =
      changed([](std::size_t, torch::nn::Module& module) { module.to(at::kBFloat16); });
  const Part twice{.calls = 2, .max_norm = 0, .type = at::kBFloat16};
  Trained alone = train({1, 1}, kAdamW, twice, model);
  for (const Shards shards : {Shards::kZero1, Shards::kZero3}) {
    Trained sharded = train({2, 2, shards}, kAdamW, twice, model);
    for (std::size_t i = 0; i < alone.norms.size(); ++i)
      EXPECT_NEAR(sharded.norms[i], alone.norms[i], 1e-9 * alone.norms[i]);
    sharded.norms = alone.norms;
    expect_same(alone, sharded, text_of({2, 2, shards}));
  }
}

// Matrices get weight decay. This depends on the whole shape, not on the local block.
Made grouped(Pipeline& pipeline) {
  std::vector<at::Tensor> decay, no_decay;
  for (const ParameterInfo& info : pipeline.named_parameters()) {
    if (!info.trainable || !info.tied_to.empty()) continue;
    (info.global_shape.size() > 1 ? decay : no_decay).push_back(info.tensor);
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decay, std::make_unique<torch::optim::AdamWOptions>(
                                 torch::optim::AdamWOptions(1e-2).weight_decay(0.5)));
  groups.emplace_back(no_decay, std::make_unique<torch::optim::AdamWOptions>(
                                    torch::optim::AdamWOptions(2e-2).weight_decay(0)));
  return std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions(1e-2));
}

TEST(ZeroDoorTest, GroupsGoByNameAndWholeShape) {
  const Trained alone = train({}, grouped);
  EXPECT_NE(alone.losses, train({}).losses);
  for (const Shards shards : kAll)
    expect_same(alone, train({1, 4, shards}, grouped), text_of({1, 4, shards}));
}

TEST(ZeroDoorTest, ACheckpointGoesOnUnderEveryKindOfSharding) {
  for (const char* name : {"AdamW", "SGD", "Adagrad"}) {
    const Make& make = kOptimizers.at(name);
    const TempDirectory folder;
    train({1, 1}, make, {.last = 2, .to = folder / "alone"});
    const Trained expected = train({1, 1}, make, {3, 4, folder / "alone"});
    for (const Shards saved : kAll) {
      const std::string path = folder / std::to_string(static_cast<int>(saved));
      train({2, 2, saved}, make, {.last = 2, .to = path});
      Checkpoint(path).verify();
      expect_same(expected, train({1, 1}, make, {3, 4, path}), name);
      for (const Shards loaded : {Shards::kZero1, Shards::kZero3}) {
        expect_same(expected, train({1, 4, loaded}, make, {3, 4, path}),
                    name + (" saved under " + text_of({2, 2, saved})) + ", loaded under " +
                        text_of({1, 4, loaded}));
      }
    }
  }
}

using Body = std::function<void(Pipeline&)>;

std::string refusal(const Layout& layout, const Body& body, const RunOptions& run_options = {}) {
  const Error error = error_of([&] { run(wide_mlp(), options_of(layout), body, run_options); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  return error.what();
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ZeroDoorTest, APlainStepOfAnOptimizerIsFoundAtTheNextCall) {
  const TempDirectory folder;
  const std::map<std::string, std::function<void(Pipeline&, Optimizer&)>> calls = {
      {"Pipeline::train_step", [](Pipeline& p, Optimizer&) { p.train_step(batch_of(p, 2)); }},
      {"Pipeline::eval_step", [](Pipeline& p, Optimizer&) { p.eval_step(batch_of(p, 2)); }},
      {"Pipeline::save",
       [&](Pipeline& p, Optimizer& o) { p.save(folder / "ck", {.optimizers = {&o}}); }},
      {"Pipeline::update", [](Pipeline& p, Optimizer& o) { p.update(o); }}};
  for (const auto& [call, next] : calls) {
    for (const char* name : {"AdamW", "plain SGD"}) {
      for (const Shards shards : {Shards::kZero1, Shards::kZero3}) {
        const std::string text = refusal({1, 2, shards}, [&, &next = next](Pipeline& pipeline) {
          const Made optimizer = kOptimizers.at(name)(pipeline);
          pipeline.train_step(batch_of(pipeline, 1));
          optimizer->step();
          next(pipeline, *optimizer);
        });
        expect_in(text, "were written to, as by optimizer.step()");
        expect_in(text, call);
        expect_in(text, "call pipeline.update(optimizer) in place of optimizer.step()");
        expect_in(text, shards == Shards::kZero1 ? "with zero1" : "with zero3");
      }
    }
  }
}

TEST(ZeroDoorTest, WeightsThatArePutInByThePipelineAreNoPlainStep) {
  const TempDirectory folder;
  for (const Shards shards : {Shards::kZero1, Shards::kZero3}) {
    run(wide_mlp(), options_of({1, 2, shards}), [&](Pipeline& pipeline) {
      const Made optimizer = kAdamW(pipeline);
      pipeline.train_step(batch_of(pipeline, 1));
      pipeline.update(*optimizer);
      pipeline.save(folder / "ck", {.optimizers = {optimizer.get()}});
      const double before = pipeline.eval_step(batch_of(pipeline, 2)).loss;
      pipeline.update(*optimizer);
      EXPECT_NE(pipeline.eval_step(batch_of(pipeline, 2)).loss, before);
      optimizer->step();
      pipeline.load(folder / "ck",
                    {.optimizers = {optimizer.get()}});  // restores all changed values
      EXPECT_EQ(pipeline.eval_step(batch_of(pipeline, 2)).loss, before);
      pipeline.load_weights([](Stage& stage) {
        const at::NoGradGuard no_grad;
        for (const ParameterInfo& info : stage.parameters()) at::Tensor(info.tensor).fill_(0.01);
      });
      EXPECT_NE(pipeline.eval_step(batch_of(pipeline, 2)).loss, before);
      if (shards != Shards::kZero1) return;
      auto state = pipeline.local_state_dict();
      for (auto& [name, value] : state) value = at::full_like(value, 0.02);
      pipeline.load_state_dict(state);
      pipeline.train_step(batch_of(pipeline, 2));
    });
  }
}

// Stands for optimizers that update whole rows.
class OfRows final : public Optimizer {
 public:
  explicit OfRows(std::vector<at::Tensor> parameters)
      : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))},
                  std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  at::Tensor step(LossClosure closure) override { return closure ? closure() : at::Tensor(); }
};

TEST(ZeroDoorTest, OptimizersThatNeedMoreThanElementsAreRefusedByName) {
  const auto steps_with = [](auto make) {
    return [make](Pipeline& pipeline) {
      const Made optimizer = make(pipeline);
      pipeline.train_step(batch_of(pipeline, 1));
      pipeline.update(*optimizer);
    };
  };
  const auto lbfgs = steps_with(maker<torch::optim::LBFGS>(torch::optim::LBFGSOptions(1)));
  const auto of_rows = steps_with(
      [](Pipeline& pipeline) -> Made { return std::make_unique<OfRows>(pipeline.parameters()); });
  for (const Shards shards : kAll)
    expect_in(refusal({1, 2, shards}, lbfgs), "LBFGS needs a closure");
  for (const Shards shards : {Shards::kZero1, Shards::kZero3})
    expect_in(refusal({1, 2, shards}, of_rows), "not known to update element by element");
  run(wide_mlp(), options_of({1, 2}), of_rows);  // any optimizer works with whole parameters
}

TEST(ZeroDoorTest, OtherTensorsThanTheBlocksAreRefused) {
  const auto of_whole = [](Pipeline& pipeline) {
    std::vector<at::Tensor> whole;
    for (Stage* stage : pipeline.stages()) whole.push_back(stage->parameters()[0].tensor);
    torch::optim::AdamW optimizer(whole);
    pipeline.update(optimizer);
  };
  const std::string text = refusal({1, 2, Shards::kZero1}, of_whole);
  expect_in(text, "not belong to this rank's pipeline");
  expect_in(text, "this replica's own blocks");
  run(wide_mlp(), options_of({1, 2}), of_whole);
  expect_in(
      refusal({1, 2, Shards::kZero3}, [](Pipeline& pipeline) { pipeline.local_state_dict(); }),
      "no whole parameters");
  // An optimizer of whole parameters must not silently skip training either.
  expect_in(refusal({1, 2, Shards::kZero1},
                    [](Pipeline& pipeline) {
                      const std::vector<at::Tensor> whole = {
                          pipeline.stages().front()->parameters().front().tensor};
                      torch::optim::AdamW optimizer(whole);
                      for (int step = 1; step <= 2; ++step) {
                        pipeline.train_step(batch_of(pipeline, step));
                        optimizer.step();
                      }
                    }),
            "of pipeline.parameters()");
}

TEST(ZeroDoorTest, ThePredictedStateIsThatOfTheReplicaThatHasMost) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Model model = changed([&](std::size_t, torch::nn::Module& module) { module.to(type); });
    model.layers.back().ties.clear();
    const ModelSpec spec =
        describe(model.layers, {{"x", {{2, kWide}, type}}, {"y", {{2, kWide}, type}}});
    std::int64_t of_one = 0;
    for (const Shards shards : kAll) {
      const PipelineOptions options = options_of({1, 4, shards});
      const RankMemory predicted = plan_pipeline(spec, options).ranks[0].memory;
      std::int64_t most = 0;
      std::mutex mutex;
      run(model, options, [&](Pipeline& pipeline) {
        torch::optim::AdamW optimizer(pipeline.parameters());
        pipeline.train_step(batch_of(pipeline, 1, type));
        pipeline.update(optimizer);
        std::int64_t bytes = 0;
        for (const auto& [parameter, state] : optimizer.state()) {
          const auto& moments = static_cast<torch::optim::AdamWParamState&>(*state);
          bytes +=
              static_cast<std::int64_t>(moments.exp_avg().nbytes() + moments.exp_avg_sq().nbytes());
        }
        const std::lock_guard lock(mutex);
        most = std::max(most, bytes);
      });
      EXPECT_EQ(predicted.optimizer_bytes, most) << text_of({1, 4, shards});
      if (shards == Shards::kNone)
        of_one = most;
      else
        EXPECT_LT(most, of_one / 3);
    }
  }
}

TEST(ZeroDoorTest, AHookAndTheTrainersPlanAreRefused) {
  RunOptions hooked;
  hooked.reduction.reduce = [](int, std::optional<int>, const auto&) {};
  expect_in(refusal(
                {1, 2, Shards::kZero1}, [](Pipeline&) {}, hooked),
            "a hook reduces gradients, but with zero1");

  PipelineOptions options = options_of({1, 2, Shards::kZero1});
  options.step_end = StepEnd::kUpdate;
  const Error error = error_of([&] {
    run(wide_mlp(), options, [](Pipeline& pipeline) {
      torch::optim::AdamW optimizer(pipeline.parameters());
      pipeline.update(optimizer);
    });
  });
  expect_in(error.what(), "end with an update");
  expect_in(error.what(), "Pipeline::update");
}

TEST(ZeroDoorTest, StepIsOneCallOfAllRanks) {
  expect_in(refusal({2, 1},
                    [](Pipeline& pipeline) {
                      const Made optimizer = kAdamW(pipeline);
                      pipeline.train_step(batch_of(pipeline, 1));
                      if (pipeline.rank() == 0) {
                        pipeline.update(*optimizer);
                      } else {
                        pipeline.eval_step(batch_of(pipeline, 1));
                      }
                    }),
            "called");
}

TEST(ZeroDoorTest, TheUpdateIsAProvenProgramOfThePlan) {
  PipelineOptions options = options_of({2, 2, Shards::kZero1, "Interleaved1F1B"});
  options.frozen_layers = {"first", "block0"};
  Model model = wide_mlp();
  model.layers.back().ties.clear();
  const Plan plan = plan_pipeline(describe(model.layers), options);
  Program program = detail::proven_step_program(plan, {.update_only = true});
  EXPECT_EQ(program.num_microbatches, 0);
  std::size_t num_updates = 0;
  for (const auto& row : program.ranks) {
    for (const Action& action : row) {
      if (action.kind != ActionKind::kUpdate) continue;
      ++num_updates;
      EXPECT_TRUE(has_weight_gradients(program.backward_of(action.stage)));
    }
  }
  std::size_t num_trained = 0;
  for (const StageContent& stage : plan.partition.stages)
    num_trained += has_weight_gradients(stage.backward) ? 1 : 0;
  EXPECT_EQ(num_updates, num_trained);
  EXPECT_LT(num_trained, plan.partition.stages.size());

  const auto first_reason = [](const Program& changed) {
    const VerifyReport report = verify(changed);
    return report.ok() ? std::string() : report.violations.front().reason;
  };
  Program without = program;
  without.ranks[1].pop_back();
  EXPECT_NE(first_reason(without), "");
  Program twice = program;
  twice.ranks[1].push_back(twice.ranks[1].back());
  expect_in(first_reason(twice), "runs a second time");
  Program computes = program;
  computes.ranks[0].insert(computes.ranks[0].begin(), Action::make(ActionKind::kReduceLoss));
  expect_in(first_reason(computes), "the program only updates");
  Program trains = program;
  trains.num_microbatches = 4;
  expect_in(first_reason(trains), "neither microbatches nor forwards");
  trains.num_microbatches = 0;
  trains.update_only = false;
  expect_in(first_reason(trains), "one microbatch");
}

}  // namespace
}  // namespace sluice::test::zero_door_test
