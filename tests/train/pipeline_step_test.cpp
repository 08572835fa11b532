#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <map>
#include <mutex>
#include <set>

#include "sluice/parts/observers.h"
#include "support/user_models.h"
#include "train/pipeline_support.h"

namespace sluice::test::pipeline_step_test {
namespace {

using Grads = std::map<std::string, at::Tensor>;

Grads grads_of(const Model& model, const PipelineOptions& options,
               const std::function<void(Pipeline&)>& body, const RunOptions& run_options = {}) {
  Grads grads;
  std::mutex mutex;
  run(
      model, options,
      [&](Pipeline& pipeline) {
        pipeline.zero_grad();  // the user's modules keep their gradients
        pipeline.parameters();
        body(pipeline);
        const std::lock_guard lock(mutex);
        for (const ParameterInfo& info : pipeline.named_parameters()) {
          const at::Tensor& grad = info.tensor.grad();
          grads[info.name] = grad.defined() ? grad.clone() : at::Tensor();
        }
      },
      run_options);
  return grads;
}

void expect_equal(const Grads& a, const Grads& b, const std::string& where) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a)
    EXPECT_TRUE(at::equal(tensor, b.at(name))) << name << " " << where;
}

const std::map<std::string, int> kLayouts = {
    {"GPipe", 4}, {"1F1B", 2}, {"Interleaved1F1B", 2}, {"ZBVZeroBubble", 2}, {"DualPipeV", 2}};

// Each block also writes the magnitude of its output, like a router's balance loss.
Model balanced_model(double scale) {
  Model model;
  for (int i = 0; i < 4; ++i) {
    LayerSpec& layer = model.layers.emplace_back();
    layer.name = "blocks." + std::to_string(i);
    layer.reads = {i == 0 ? "x" : "hidden"};
    layer.writes = {"hidden", "balance." + std::to_string(i)};
    layer.make = [] { return std::make_shared<torch::nn::LinearImpl>(kWidth, kWidth); };
    layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
      const at::Tensor out = at::tanh(module.as<torch::nn::LinearImpl>()->forward(in[0]));
      return std::vector<at::Tensor>{out, out.square().mean()};
    };
  }
  model.inputs = {"x", "y"};
  model.outputs = {"hidden"};
  model.loss = mean_loss(
      [](const Values& out, const Values& in) { return at::mse_loss(out["hidden"], in["y"]); });
  model.auxiliary = {{"balance.*", scale}};
  return model;
}

TEST(PipelineStepTest, AddsAuxiliaryLossesOfEveryStage) {
  const at::Tensor x = inputs_of(1, 22), y = at::sin(x);
  const Model model = balanced_model(0.3);
  std::vector<StepResult> results(2);
  const auto train = [&](Pipeline& pipeline) {
    const StepResult result = pipeline.train_step({{"x", x}, {"y", y}});
    if (pipeline.num_ranks() == 2) results[pipeline.rank()] = result;
  };
  const Grads one = grads_of(model, layout("1F1B", 1), train);
  for (const auto& [schedule, ranks] : kLayouts)
    expect_equal(one, grads_of(model, layout(schedule.c_str(), ranks), train), schedule);

  std::map<std::string, at::Tensor> weights;
  run(model, layout("1F1B", 1), [&](Pipeline& pipeline) {
    for (const ParameterInfo& info : pipeline.named_parameters())
      weights[info.name] = info.tensor.detach().clone().set_requires_grad(true);
  });
  at::Tensor hidden = x, all = at::zeros({});
  std::vector<double> balances;
  for (int i = 0; i < 4; ++i) {
    const std::string name = "blocks." + std::to_string(i);
    hidden = at::tanh(at::linear(hidden, weights.at(name + ".weight"), weights.at(name + ".bias")));
    balances.push_back(hidden.square().mean().item<double>());
    all = all + 0.3 * hidden.square().mean();
  }
  const at::Tensor loss = at::mse_loss(hidden, y);
  (loss + all).backward();
  for (const auto& [name, tensor] : weights)
    EXPECT_TRUE(at::allclose(one.at(name), tensor.grad(), 1e-5, 1e-7)) << name;
  for (const StepResult& result : results) {
    EXPECT_NEAR(result.loss, (loss + all).item<double>(), 1e-6);
    for (const double of_microbatch : result.microbatch_losses)  // exclude auxiliary losses
      EXPECT_LT(of_microbatch, 1.5 * loss.item<double>());
    ASSERT_EQ(result.auxiliary.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(result.auxiliary[i].first, "balance." + std::to_string(i));
      EXPECT_NEAR(result.auxiliary[i].second, balances[i], 1e-6);
    }
  }
}

TEST(PipelineStepTest, AuxiliaryLossesWeighAsTheScaleSays) {
  const at::Tensor x = inputs_of(1), y = at::sin(x);
  const auto grads = [&](double scale, GradientScale of) {
    return grads_of(balanced_model(scale), layout("1F1B", 2, 4), [&](Pipeline& pipeline) {
      pipeline.train_step({{"x", x}, {"y", y}}, {.scale = of});
    });
  };
  // Microbatches are of equal size, so the mean over rows equals the mean over microbatches.
  const Grads tokens = grads(0.3, GradientScale::kTokens);
  const Grads microbatches = grads(0.3, GradientScale::kMicrobatches);
  const Grads sum = grads(0.3, GradientScale::kSumOfMeans);
  const Grads divided = grads(0.3, {GradientScale::kDivisor, 4});
  for (const auto& [name, tensor] : tokens) {
    EXPECT_TRUE(at::allclose(tensor, microbatches.at(name), 1e-5, 1e-7)) << name;
    EXPECT_TRUE(at::allclose(tensor, sum.at(name) / 4, 1e-5, 1e-7)) << name;
    EXPECT_TRUE(at::allclose(tensor, divided.at(name), 1e-5, 1e-7)) << name;
  }
  EXPECT_FALSE(at::allclose(tokens.at("blocks.0.weight"),
                            grads(0.0, GradientScale::kTokens).at("blocks.0.weight")));
}

TEST(PipelineStepTest, TakesALossThatTheModelReturns) {
  Model model = model_of(make_net());
  const at::Tensor x = inputs_of(1);
  const auto train = [&](Pipeline& pipeline) {
    pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
  };
  const Grads expected = grads_of(model, layout("1F1B", 2), train);
  LayerSpec& layer = model.layers.emplace_back();
  layer.name = "loss";
  layer.reads = {"hidden", "y"};
  layer.writes = {"loss"};
  layer.forward = [](torch::nn::Module&, const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{at::mse_loss(in[0], in[1])};
  };
  model.outputs = {"loss"};
  model.loss = loss_output("loss");
  expect_equal(expected, grads_of(model, layout("1F1B", 2), train), "loss_output");
}

TEST(PipelineStepTest, TakesInputsInTheOrderOfTheModel) {
  const Model model = model_of(make_net());
  const at::Tensor x = inputs_of(1), y = targets_of(x);
  const auto named = grads_of(model, layout("1F1B", 2), [&](Pipeline& pipeline) {
    pipeline.train_step({{"x", x}, {"y", y}});
  });
  const auto in_order = grads_of(model, layout("1F1B", 2), [&](Pipeline& pipeline) {
    pipeline.train_step({x, y});
  });
  expect_equal(named, in_order, "in order");
}

// A row's output is the mean over its positions.
Model ragged_model() {
  Model model;
  for (int i = 0; i < 3; ++i) {
    LayerSpec& layer = model.layers.emplace_back();
    layer.name = "layers." + std::to_string(i);
    layer.reads = {i == 0 ? "x" : "hidden"};
    layer.make = [] { return std::make_shared<torch::nn::LinearImpl>(kWidth, kWidth); };
    layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{at::tanh(module.as<torch::nn::LinearImpl>()->forward(in[0]))};
    };
  }
  LayerSpec& mean = model.layers.emplace_back();
  mean.name = "mean";
  mean.reads = {"hidden", "offsets"};
  mean.forward = [](torch::nn::Module&, const std::vector<at::Tensor>& in) {
    std::vector<at::Tensor> rows;
    for (std::int64_t i = 0; i + 1 < in[1].size(0); ++i) {
      rows.push_back(
          in[0].slice(0, in[1][i].item<std::int64_t>(), in[1][i + 1].item<std::int64_t>()).mean(0));
    }
    return std::vector<at::Tensor>{at::stack(rows)};
  };
  model.inputs = {"y", "x", "offsets"};
  model.outputs = {"hidden"};
  model.loss = mean_loss(
      [](const Values& out, const Values& in) { return at::mse_loss(out["hidden"], in["y"]); });
  return model;
}

TEST(PipelineStepTest, CutsRaggedInputsBetweenRowsAndCountsOffsetsAnew) {
  const std::vector<std::int64_t> lengths = {3, 1, 7, 2, 5, 4, 1};
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
  const at::Tensor x = inputs_of(1, offsets.back()), y = inputs_of(2, 7);
  const Model model = ragged_model();
  double loss = 0;
  const auto train = [&](Pipeline& pipeline) {
    const StepResult result =
        pipeline.train_step({{"y", y},
                             {"x", Input::ragged(x, lengths)},
                             {"offsets", Input::offsets(at::tensor(offsets, at::kInt))}});
    if (pipeline.has_last_stage()) loss = result.loss;
  };
  const Grads one = grads_of(model, layout("1F1B", 1, 4), train);
  const double loss_of_one = loss;
  for (const auto& [schedule, ranks] : std::map<std::string, int>{{"GPipe", 4}, {"DualPipeV", 2}}) {
    expect_equal(one, grads_of(model, layout(schedule.c_str(), ranks, 4), train), schedule);
    EXPECT_EQ(loss, loss_of_one);
  }
  // With one microbatch the loss is one mean over all rows.
  const Grads whole = grads_of(model, layout("1F1B", 1, 1), train);
  EXPECT_NEAR(loss, loss_of_one, 1e-6);
  for (const auto& [name, tensor] : one)
    EXPECT_TRUE(at::allclose(tensor, whole.at(name), 1e-5, 1e-7)) << name;
}

TEST(PipelineStepTest, AScaleMayBeGivenForAStepAndADivisorAfterIt) {
  const Model model = model_of(make_net());
  const at::Tensor x = inputs_of(1, 22), y = targets_of(x);
  const auto grads = [&](const RunOptions& options, const StepOptions& step, double divisor = 1) {
    return grads_of(
        model, layout("1F1B", 2),
        [&](Pipeline& pipeline) {
          pipeline.train_step({x, y}, step);
          if (divisor != 1) pipeline.scale_grads_by_divisor(divisor);
        },
        options);
  };
  const Grads sum = grads({.scale = GradientScale::kSumOfMeans}, {});
  expect_equal(sum, grads({}, {.scale = GradientScale::kSumOfMeans}), "kSumOfMeans of a step");
  expect_equal(grads({.scale = {GradientScale::kDivisor, 4}}, {}),
               grads({.scale = GradientScale::kSumOfMeans}, {}, 4), "divided afterwards");
  expect_equal(grads({}, {.scale = {{GradientScale::kDivisor, 4}}}),
               grads({.scale = {GradientScale::kDivisor, 4}}, {}), "kDivisor of a step");
}

TEST(PipelineStepTest, ReducesEveryGradientOnce) {
  const Model model = model_of(make_net());
  const at::Tensor x = inputs_of(1), other = inputs_of(2);
  const auto train = [&](Pipeline& pipeline) {
    pipeline.train_step({x, targets_of(x)});
    pipeline.train_step({other, targets_of(other)});
  };
  const Grads plain = grads_of(model, layout("ZBVZeroBubble", 2), train);
  for (const bool per_microbatch : {false, true}) {
    std::multiset<std::pair<int, int>> calls;  // {stage, microbatch}
    std::mutex mutex;
    RunOptions options;
    options.reduction.per_microbatch = per_microbatch;
    options.reduction.reduce = [&](int stage, std::optional<int> microbatch,
                                   const auto& gradients) {
      const std::lock_guard lock(mutex);
      calls.insert({stage, microbatch.value_or(-1)});
      // as if four ranks had equal gradients
      for (const auto& [name, gradient] : gradients) gradient.mul_(4);
    };
    const Grads reduced = grads_of(model, layout("ZBVZeroBubble", 2), train, options);
    for (const auto& [name, tensor] : plain)
      // multiplying by a power of two is exact
      EXPECT_TRUE(at::equal(4 * tensor, reduced.at(name))) << name;
    EXPECT_EQ(calls.size(), per_microbatch ? 2u * 4u * 8u : 2u * 4u);
    EXPECT_EQ(calls.count({2, per_microbatch ? 7 : -1}), 2u);
  }
}

TEST(PipelineStepTest, GivesOutputsToTheRanksThatAsk) {
  torch::nn::Sequential net = make_net();
  const Model model = model_of(net);
  const at::Tensor x = inputs_of(1), expected = net->forward(x);
  run(model, layout("ZBVZeroBubble", 4), [&](Pipeline& pipeline) {
    pipeline.parameters();
    EXPECT_TRUE(pipeline.train_step({x, targets_of(x)}).outputs.empty());
    for (const bool trains : {false, true}) {
      const StepOptions all = {.outputs = OutputRanks::kAll};
      const StepResult result = trains ? pipeline.train_step({x, targets_of(x)}, all)
                                       : pipeline.eval_step({x, targets_of(x)}, all);
      ASSERT_EQ(result.outputs.size(), 8u);
      std::vector<at::Tensor> outputs;
      for (const Values& values : result.outputs) outputs.push_back(values["hidden"]);
      EXPECT_TRUE(at::allclose(at::cat(outputs), expected, 1e-5, 1e-6));
      for (at::Tensor& output : outputs) output.mul_(2);  // the outputs belong to this rank
    }
  });
}

// Weight gradients of several microbatches are pending at once here.
TEST(PipelineStepTest, GivesEveryReductionTheGradientOfItsMicrobatchAlone) {
  const Schedule schedule =
      parse_schedule_csv("0F0,0F1,0I0,0I1,0W0,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n", "own.csv");
  const auto given = [&](bool split) {
    Model model{make_user_layers(UserModel::kUnsplittable, 4, kWidth, 0.0),
                {"x", "y"},
                {"prediction"},
                &squared_error,
                [](const Values& batch) { return batch["y"].numel(); }};
    std::map<std::string, at::Tensor> gradients;
    std::mutex mutex;
    RunOptions options;
    options.reduction.per_microbatch = true;
    options.reduction.reduce = [&](int, std::optional<int> microbatch, const auto& named) {
      const std::lock_guard lock(mutex);
      for (const auto& [name, gradient] : named)
        gradients[name + " " + std::to_string(*microbatch)] = gradient.clone();
    };
    PipelineOptions plan;
    if (split) plan.schedule = schedule;
    if (!split) plan = layout("1F1B", 1, 2);
    const at::Tensor x = inputs_of(1);
    run(
        model, plan,
        [&](Pipeline& pipeline) {
          pipeline.train_step({x, at::sin(x)});
        },
        options);
    return gradients;
  };
  const auto whole = given(false), split = given(true);
  EXPECT_FALSE(whole.empty());
  ASSERT_EQ(whole.size(), split.size());
  for (const auto& [name, tensor] : whole) EXPECT_TRUE(at::equal(tensor, split.at(name))) << name;
}

// The gradient of a mean over 24 rows must not be rounded to bfloat16.
TEST(PipelineStepTest, GradientsOfAHalfPrecisionLossBeginInFloat) {
  torch::nn::Sequential net(torch::nn::Linear(kWidth, 4)), plain(torch::nn::Linear(kWidth, 4));
  {
    const at::NoGradGuard no_grad;
    keyed_normal_(net->ptr<torch::nn::LinearImpl>(0)->weight, 3, "w", 0.0, 0.3);
    plain->ptr<torch::nn::LinearImpl>(0)->weight.copy_(net->ptr<torch::nn::LinearImpl>(0)->weight);
    plain->ptr<torch::nn::LinearImpl>(0)->bias.copy_(net->ptr<torch::nn::LinearImpl>(0)->bias);
  }
  net->to(at::kBFloat16);
  plain->to(at::kBFloat16);
  const at::Tensor x = inputs_of(1).to(at::kBFloat16),
                   y = targets_of(inputs_of(1)).to(at::kBFloat16);
  torch::mse_loss(plain->forward(x), y).backward();
  const Grads grads = grads_of(model_of(net), layout("1F1B", 1, 1), [&](Pipeline& pipeline) {
    pipeline.train_step({x, y});
  });
  EXPECT_TRUE(at::equal(grads.at("0.bias"), plain->ptr<torch::nn::LinearImpl>(0)->bias.grad()));
  EXPECT_TRUE(at::equal(grads.at("0.weight"), plain->ptr<torch::nn::LinearImpl>(0)->weight.grad()));
}

TEST(PipelineStepTest, SumsOfHalfPrecisionGradientsStayFloat) {
  torch::nn::Sequential net = make_net();
  net->to(at::kBFloat16);
  const Model model = model_of(net);
  std::map<std::string, at::Tensor> sums;
  RunOptions options;
  options.reduction.reduce = [&](int, std::optional<int>, const auto& gradients) {
    for (const auto& [name, gradient] : gradients) {
      EXPECT_EQ(gradient.scalar_type(), at::kFloat);
      at::Tensor& sum = sums[name];
      sum = sum.defined() ? sum + gradient : gradient.clone();
    }
  };
  const auto step = [](Pipeline& pipeline, int i) {
    const at::Tensor x = inputs_of(i);
    pipeline.train_step({x.to(at::kBFloat16), targets_of(x).to(at::kBFloat16)});
  };
  const Grads grads = grads_of(
      model, layout("1F1B", 1),
      [&](Pipeline& pipeline) {
        for (int i = 1; i <= 6; ++i) step(pipeline, i);
      },
      options);
  for (const auto& [name, tensor] : grads) {
    EXPECT_EQ(tensor.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::equal(tensor, sums.at(name).to(at::kBFloat16))) << name;
  }
  // A value that the user writes to `.grad` is added to.
  sums.clear();
  const Grads anew = grads_of(
      model, layout("1F1B", 1),
      [&](Pipeline& pipeline) {
        step(pipeline, 1);
        for (at::Tensor& p : pipeline.parameters()) p.mutable_grad().zero_();
        sums.clear();
        step(pipeline, 2);
      },
      options);
  for (const auto& [name, tensor] : anew)
    EXPECT_TRUE(at::equal(tensor, sums.at(name).to(at::kBFloat16))) << name;
}

}  // namespace
}  // namespace sluice::test::pipeline_step_test
