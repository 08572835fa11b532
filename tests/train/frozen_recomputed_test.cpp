// Compares programs that leave out frozen work or run layers twice with one rank that runs
// everything.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "sluice/layer.h"
#include "sluice/pipeline.h"
#include "support/callback_observer.h"
#include "support/expect_error.h"
#include "support/user_models.h"

namespace sluice::test::frozen_recomputed_test {
namespace {

constexpr std::int64_t kWidth = 8, kRows = 32;
constexpr int kMicrobatches = 8;

// Uses a value twice that later layers read, too, an integer input, and an undefined value.
LayerSpec joining_layer(const std::string& name) {
  LayerSpec layer = layer_of<ResidualBlock>(name, kWidth, 0.1);
  layer.reads = {"hidden", "skip", "numbers", "nothing"};
  layer.writes = {"hidden", "nothing"};
  layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
    EXPECT_FALSE(in[3].defined());
    const at::Tensor joined = in[0] + at::sin(in[1]) * in[1] + in[2].to(at::kFloat).unsqueeze(1);
    return std::vector<at::Tensor>{static_cast<ResidualBlock&>(module).forward(joined), {}};
  };
  layer.shapes = nullptr;
  return layer;
}

LayerSpec splitting_layer() {
  LayerSpec layer = layer_of<ResidualBlock>("split", kWidth, 0.1);
  layer.writes = {"hidden", "skip", "nothing"};
  layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
    const at::Tensor out = static_cast<ResidualBlock&>(module).forward(in[0]);
    return std::vector<at::Tensor>{out, in[0], {}};
  };
  layer.shapes = nullptr;
  return layer;
}

LayerSpec frozen(LayerSpec layer) {
  layer.make = [make = layer.make] {
    std::shared_ptr<torch::nn::Module> module = make();
    for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
    return module;
  };
  return layer;
}

Model model_of(int num_frozen = 0, const std::vector<int>& also_frozen = {}) {
  Model model;
  model.layers = {linear_layer("first", kWidth, kWidth),
                  splitting_layer(),
                  layer_of<ResidualBlock>("block", kWidth, 0.1),
                  joining_layer("join"),
                  layer_of<torch::nn::BatchNorm1dImpl>("norm", torch::nn::BatchNormOptions(kWidth)),
                  joining_layer("join_again"),
                  layer_of<TwiceUsed>("twice", kWidth),
                  linear_layer("last", kWidth, kWidth)};
  model.layers.front().reads = {"x"};
  model.layers.back().writes = {"prediction"};
  for (int i = 0; i < 8; ++i) {
    const bool also = std::find(also_frozen.begin(), also_frozen.end(), i) != also_frozen.end();
    if (i < num_frozen || also) model.layers[i] = frozen(std::move(model.layers[i]));
  }
  model.inputs = {"x", "y", "numbers"};
  model.outputs = {"prediction"};
  model.loss = squared_error;
  model.count = [](const Values& batch) { return batch["y"].numel(); };
  return model;
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> state;
  std::map<int, std::string> ran;  // of the last step, by rank
};

Trained train(const Model& model, PipelineOptions options) {
  options.num_microbatches = kMicrobatches;
  Trained trained;
  std::mutex mutex;
  std::vector<CallbackObserver> observers(static_cast<std::size_t>(*options.num_ranks));
  RunOptions run_options;
  run_options.observers = [&](int rank) {
    CallbackObserver& observer = observers[static_cast<std::size_t>(rank)];
    observer.on_begin = [&, rank](int, const Action& action) {
      const std::lock_guard lock(mutex);
      if (action.microbatch <= 0) trained.ran[rank] += to_text(action) + " ";
    };
    return std::vector<ExecutorObserver*>{&observer};
  };
  const auto body = [&](Pipeline& pipeline) {
    torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.02));
    for (int step = 1; step <= 3; ++step) {
      {
        const std::lock_guard lock(mutex);
        trained.ran[pipeline.rank()].clear();
      }
      at::Tensor x = at::empty({kRows, kWidth});
      keyed_normal_(x, 5, "x" + std::to_string(step), 0.0, 1.0);
      const StepResult result = pipeline.train_step(
          {{"x", x}, {"y", at::sin(2 * x)}, {"numbers", at::arange(kRows) % 3}});
      optimizer.step();
      optimizer.zero_grad();
      if (pipeline.rank() == 0) trained.losses.push_back(result.loss);
    }
    const std::lock_guard lock(mutex);
    for (const auto& [name, tensor] : pipeline.local_state_dict())
      trained.state[name] = tensor.clone();
  };
  run(model, options, body, run_options);
  return trained;
}

void expect_same_bits(const Trained& found, const Trained& expected, const std::string& what) {
  EXPECT_EQ(found.losses, expected.losses) << what;
  ASSERT_EQ(found.state.size(), expected.state.size()) << what;
  for (const auto& [name, tensor] : found.state)
    EXPECT_TRUE(at::equal(tensor, expected.state.at(name))) << what << " " << name;
}

PipelineOptions layout(const char* schedule, int ranks, const ActivationCheckpoint& twice = {}) {
  PipelineOptions options;
  options.num_ranks = ranks;
  options.schedule = schedule;
  options.activation_checkpoint = twice;
  return options;
}

const std::vector<std::pair<const char*, int>> kLayouts = {
    {"1F1B", 1},      {"1F1B", 4},          {"GPipe", 3},         {"Interleaved1F1B", 2},
    {"DualPipeV", 2}, {"ZBVZeroBubble", 2}, {"ZBVZeroBubble", 4}, {"InterleavedZeroBubble", 2}};

TEST(FrozenTest, FrozenLayersLeaveTheProgramAndTheBitsAsTheyAre) {
  for (const auto& [num_frozen, also] :
       {std::pair<int, std::vector<int>>{4, {}}, {1, {4, 5}}, {0, {2, 3, 4, 5, 6, 7}}}) {
    const Trained one = train(model_of(num_frozen, also), layout("1F1B", 1));
    for (const auto& [schedule, ranks] : kLayouts) {
      const Trained found = train(model_of(num_frozen, also), layout(schedule, ranks));
      expect_same_bits(found, one,
                       schedule + std::to_string(ranks) + " " + std::to_string(num_frozen));
    }
  }
}

TEST(FrozenTest, NothingGoesBackIntoStagesBelowAllThatIsTrained) {
  const Trained four = train(model_of(4), layout("1F1B", 4));  // two layers per stage
  EXPECT_EQ(four.ran.at(0), "0F0 0SEND_F0 REDUCE_LOSS ");
  EXPECT_EQ(four.ran.at(1), "1RECV_F0 1F0 1SEND_F0 REDUCE_LOSS ");
  EXPECT_EQ(four.ran.at(2), "2RECV_F0 2F0 2SEND_F0 2RECV_B0 2B0 REDUCE_LOSS ");
}

TEST(FrozenTest, AFrozenStageBetweenOthersRunsNoW) {
  const Trained four = train(model_of(0, {4, 5}), layout("1F1B", 4));
  EXPECT_EQ(four.ran.at(2), "2RECV_F0 2F0 2SEND_F0 2RECV_B0 2I0 2SEND_B0 REDUCE_LOSS ");
}

TEST(FrozenTest, AModelOfWhichEverythingIsFrozenIsRefused) {
  const Error error = error_of([] { train(model_of(8), layout("1F1B", 2)); });
  EXPECT_NE(std::string(error.what()).find("every parameter of the model is frozen"),
            std::string::npos)
      << error.what();
}

TEST(RecomputationTest, LayersThatRunTwiceHaveTheSameBits) {
  for (const int num_frozen : {0, 3}) {
    const Trained one = train(model_of(num_frozen), layout("1F1B", 1));
    for (const auto& [schedule, ranks] : kLayouts) {
      for (const ActivationCheckpoint& twice :
           {ActivationCheckpoint(ActivationCheckpoint::kFull),
            ActivationCheckpoint(ActivationCheckpoint::kLayers, {"first", "join", "norm"})}) {
        const Trained found = train(model_of(num_frozen), layout(schedule, ranks, twice));
        expect_same_bits(found, one, schedule + std::to_string(ranks));
      }
    }
  }
}

TEST(RecomputationTest, AForwardRunsOnceMoreInTheBackward) {
  for (const bool twice : {false, true}) {
    std::atomic<int> calls = 0;
    Model model = model_of();
    model.layers[2].forward = [&calls, forward = model.layers[2].forward](auto& module,
                                                                          const auto& inputs) {
      ++calls;
      return forward(module, inputs);
    };
    train(model, layout("ZBVZeroBubble", 2,
                        twice ? ActivationCheckpoint::kFull : ActivationCheckpoint::kNone));
    EXPECT_EQ(calls, 3 * kMicrobatches * (twice ? 2 : 1));
  }
}

TEST(RecomputationTest, LayersAreChosenByTheClassOfTheirModules) {
  torch::nn::Sequential net(torch::nn::Linear(kWidth, kWidth), torch::nn::Tanh(),
                            torch::nn::Linear(kWidth, kWidth));
  Model model = from_sequential(net);
  model.inputs = {"x", "y"};
  model.loss = [](const Values& out, const Values& in) {
    return LossValue{(out["hidden"] - in["y"]).square().sum(), in["y"].numel()};
  };
  const auto run_with = [&](const std::string& name) {
    std::vector<int> twice;
    run(model, layout("1F1B", 1, {ActivationCheckpoint::kClasses, {name}}),
        [&](Pipeline& pipeline) { twice = pipeline.plan().partition.stages[0].recomputed; });
    return twice;
  };
  const std::string tanh = net->ptr(1)->name();
  EXPECT_EQ(run_with(tanh), (std::vector<int>{1}));
  const Error error = error_of([&] { run_with(tanh.substr(1)); });
  EXPECT_NE(std::string(error.what()).find("did you mean '" + tanh + "'?"), std::string::npos)
      << error.what();
}

TEST(RecomputationTest, ALayerThatWritesToWhatItReadsIsRefused) {
  Model model = model_of();
  model.layers[2].forward = [](torch::nn::Module&, const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{in[0].relu_()};
  };
  const Error error =
      error_of([&] { train(model, layout("1F1B", 2, ActivationCheckpoint::kFull)); });
  EXPECT_NE(
      std::string(error.what()).find("a value that layer 'block' reads was written to in place"),
      std::string::npos)
      << error.what();
}

}  // namespace
}  // namespace sluice::test::frozen_recomputed_test
