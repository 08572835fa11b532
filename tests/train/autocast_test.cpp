#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <map>
#include <mutex>

#include "sluice/pipeline.h"
#include "support/expect_error.h"
#include "train/pipeline_support.h"

namespace sluice::test::autocast_test {
namespace {

constexpr int kSteps = 20;

Inputs batch_of(int step) {
  const at::Tensor x = inputs_of(step);
  return {{"x", x}, {"y", targets_of(x)}};
}

void set_autocast(bool on) {
  at::autocast::set_autocast_enabled(at::kCPU, on);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
}

struct Trained {
  std::vector<double> losses, norms;
  double evaluated = 0;
  std::map<std::string, at::Tensor> weights;
};

// `by_thread` sets autocast in the calling thread instead of in the options.
Trained train(const PipelineOptions& options, std::optional<at::ScalarType> autocast,
              bool by_thread = false) {
  torch::nn::Sequential net = make_net();
  Trained trained;
  RunOptions run_options;
  if (!by_thread) run_options.autocast = autocast;
  run(
      model_of(net), options,
      [&](Pipeline& pipeline) {
        torch::optim::AdamW optimizer(pipeline.parameters(), torch::optim::AdamWOptions(1e-2));
        for (int step = 1; step <= kSteps; ++step) {
          if (by_thread) set_autocast(true);
          const StepResult result = pipeline.train_step(batch_of(step));
          if (by_thread) set_autocast(false);
          for (const at::Tensor& parameter : pipeline.parameters())
            EXPECT_EQ(parameter.grad().scalar_type(), at::kFloat);
          const double norm = pipeline.clip_grad_norm(1.0);
          optimizer.step();
          optimizer.zero_grad();
          if (pipeline.rank() != 0) continue;
          trained.losses.push_back(result.loss);
          trained.norms.push_back(norm);
        }
        if (by_thread) set_autocast(true);
        const double evaluated = pipeline.eval_step(batch_of(1)).loss;
        set_autocast(false);
        if (pipeline.rank() == 0) trained.evaluated = evaluated;
        EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
      },
      run_options);
  for (const auto& item : net->named_parameters())
    trained.weights[item.key()] = item.value().detach().clone();
  return trained;
}

void expect_same_bits(const Trained& a, const Trained& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_EQ(a.evaluated, b.evaluated) << what;
  for (const auto& [name, weight] : a.weights)
    EXPECT_TRUE(at::equal(weight, b.weights.at(name))) << what << " " << name;
}

TEST(AutocastTest, HasTheSameBitsForEveryLayout) {
  const Trained alone = train(layout("GPipe", 1), at::kBFloat16);
  for (const char* schedule : {"1F1B", "InterleavedZeroBubble", "ZBVZeroBubble"})
    expect_same_bits(train(layout(schedule, 2), at::kBFloat16), alone, schedule);
  expect_same_bits(train(layout("1F1B", 4), at::kBFloat16), alone, "4 ranks");
}

TEST(AutocastTest, TheStateOfTheThreadThatCallsIsThatOfTheOptions) {
  expect_same_bits(train(layout("ZBVZeroBubble", 2), at::kBFloat16, /*by_thread=*/true),
                   train(layout("ZBVZeroBubble", 2), at::kBFloat16), "thread");
}

TEST(AutocastTest, TrainsNearFloat32) {
  const Trained wide = train(layout("1F1B", 2), {}),
                mixed = train(layout("1F1B", 2), at::kBFloat16);
  EXPECT_NE(wide.losses, mixed.losses);
  EXPECT_LT(mixed.losses.back(), 0.8 * mixed.losses.front());
  for (int step = 0; step < kSteps; ++step)
    EXPECT_NEAR(mixed.losses[step], wide.losses[step], 0.03 * wide.losses[step]) << step;
}

struct FloatProductImpl : torch::nn::Module {
  FloatProductImpl() { weight = register_parameter("weight", at::empty({kWidth, kWidth})); }
  at::Tensor forward(const at::Tensor& x) {
    const bool was_on = at::autocast::is_autocast_enabled(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    const at::Tensor y = at::tanh(at::matmul(x.to(at::kFloat), weight));
    at::autocast::set_autocast_enabled(at::kCPU, was_on);
    return y;
  }
  at::Tensor weight;
};

torch::nn::Sequential net_with_a_float_product() {
  torch::nn::Sequential net(torch::nn::Linear(kWidth, kWidth), std::make_shared<FloatProductImpl>(),
                            torch::nn::Linear(kWidth, 4));
  const at::NoGradGuard no_grad;
  for (const auto& item : net->named_parameters()) {
    at::Tensor value = item.value();
    if (value.dim() > 1)
      keyed_normal_(value, 3, item.key(), 0.0, 0.3);
    else
      value.zero_();
  }
  return net;
}

TEST(AutocastTest, ABackwardComputesInTheTypesOfItsForwardAsInAPlainLoop) {
  torch::nn::Sequential plain = net_with_a_float_product();
  const Inputs batch = batch_of(1);
  const auto tensor = [&](int i) { return batch.named()[i].second.tensors().front(); };
  set_autocast(true);
  const at::Tensor loss = torch::mse_loss(plain->forward(tensor(0)), tensor(1));
  set_autocast(false);
  at::autocast::clear_cache();
  loss.backward();

  for (const char* schedule : {"GPipe", "ZBVZeroBubble"}) {
    for (const bool twice : {false, true}) {
      torch::nn::Sequential net = net_with_a_float_product();
      PipelineOptions options = layout(schedule, 1);
      options.num_microbatches = 1;
      if (twice) options.activation_checkpoint = {ActivationCheckpoint::kLayers, {"0", "1"}};
      RunOptions run_options;
      run_options.autocast = at::kBFloat16;
      run(
          model_of(net), options,
          [&](Pipeline& pipeline) {
            pipeline.parameters();
            pipeline.train_step(batch);
          },
          run_options);
      for (const auto& item : plain->named_parameters()) {
        const at::Tensor want = item.value().grad();
        const at::Tensor got = net->named_parameters()[item.key()].grad();
        EXPECT_TRUE(at::allclose(got, want, 1e-5, 1e-7))
            << schedule << (twice ? ", twice, " : ", ") << item.key();
      }
    }
  }
}

TEST(AutocastTest, RefusesEveryTypeButBfloat16) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    EXPECT_EQ(message_of([&] {
                RunOptions options;
                options.autocast = type;
                run(
                    model_of(make_net()), layout("1F1B", 2),
                    [](Pipeline& pipeline) { pipeline.train_step(batch_of(1)); }, options);
              }),
              std::string("autocast to ") + (type == at::kHalf ? "float16" : "float32") +
                  " is not supported; RunOptions::autocast; give at::kBFloat16, or "
                  "nothing");
  }
}

TEST(AutocastTest, RefusesRanksUnderDifferentStates) {
  const std::string message = message_of([] {
    run(model_of(make_net()), layout("1F1B", 2), [&](Pipeline& pipeline) {
      set_autocast(pipeline.rank() == 1);
      pipeline.train_step(batch_of(1));
    });
  });
  EXPECT_NE(message.find("cpu bfloat16 on rank 1"), std::string::npos) << message;
  EXPECT_NE(message.find("off on rank 0"), std::string::npos) << message;
}

}  // namespace
}  // namespace sluice::test::autocast_test
