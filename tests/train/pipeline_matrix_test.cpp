// All features of user models in all schedules and layouts must have the bits of one rank.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/optim/sgd.h>

#include <map>
#include <mutex>
#include <numeric>

#include "sluice/layer.h"
#include "sluice/pipeline.h"
#include "support/user_models.h"

namespace sluice::test::pipeline_matrix_test {
namespace {

constexpr std::int64_t kWidth = 6;
constexpr int kMicrobatches = 8;

struct Kind {
  bool frozen, recomputed, ragged;
};
std::string text(const Kind& kind) {
  return std::string(kind.frozen ? " frozen" : "") + (kind.recomputed ? " recomputed" : "") +
         (kind.ragged ? " ragged" : "");
}

// The second half reads values that the first half wrote. Half of the layers write an auxiliary
// loss, and one counts running statistics. There are two outputs.
Model u_model(const Kind& kind) {
  Model model;
  for (int i = 0; i < 8; ++i) {
    const std::string at = std::to_string(i);
    const bool is_norm = i == 2, balances = i % 2 == 1;
    LayerSpec layer = is_norm ? layer_of<torch::nn::BatchNorm1dImpl>(
                                    "u." + at, torch::nn::BatchNormOptions(kWidth))
                              : layer_of<ResidualBlock>("u." + at, kWidth, 0.1);
    layer.reads = {i == 0 ? "x" : "hidden"};
    if (i > 4) layer.reads.push_back("skip." + std::to_string(7 - i));
    layer.writes = {"hidden"};
    if (i < 3) layer.writes.push_back("skip." + at);
    if (balances) layer.writes.push_back("balance." + at);
    if (i == 7) layer.writes.push_back("size");
    layer.shapes = nullptr;
    layer.forward = [i, is_norm, balances](torch::nn::Module& module,
                                           const std::vector<at::Tensor>& in) {
      const at::Tensor x = in.size() > 1 ? in[0] + at::sin(in[1]) : in[0];
      const at::Tensor out = is_norm ? module.as<torch::nn::BatchNorm1dImpl>()->forward(x)
                                     : static_cast<ResidualBlock&>(module).forward(x);
      std::vector<at::Tensor> written = {out};
      if (i < 3) written.push_back(at::tanh(out));
      if (balances) written.push_back(out.square().mean());
      if (i == 7) written.push_back(out.abs().sum(1));
      return written;
    };
    if (kind.frozen && i < 4) {
      layer.make = [make = layer.make] {
        std::shared_ptr<torch::nn::Module> module = make();
        for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
        return module;
      };
    }
    model.layers.push_back(std::move(layer));
  }
  model.inputs = {"y", "x", "offsets"};
  model.outputs = {"hidden", "size"};
  model.auxiliary = {{"balance.*", 0.1}};
  // A row has one or more positions.
  model.loss = mean_loss([](const Values& out, const Values& in) {
    const at::Tensor places = in["offsets"].diff();
    const at::Tensor target = in["y"].repeat_interleave(places, 0);
    return at::mse_loss(out["hidden"], target) + 0.1 * out["size"].mean();
  });
  return model;
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> state;
};

Trained train(const Kind& kind, const char* schedule, int ranks, int stages_per_rank) {
  PipelineOptions options;
  options.num_ranks = ranks;
  options.schedule = schedule;
  options.num_microbatches = kMicrobatches;
  options.partition.stages_per_rank = stages_per_rank;
  if (kind.recomputed) options.activation_checkpoint = ActivationCheckpoint::kFull;
  std::vector<std::int64_t> lengths;
  for (int row = 0; row < 20; ++row) lengths.push_back(kind.ragged ? 1 + row * 7 % 4 : 1);
  const std::int64_t places = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);

  Trained trained;
  std::mutex mutex;
  run(u_model(kind), options, [&](Pipeline& pipeline) {
    torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.02));
    for (int step = 1; step <= 2; ++step) {
      at::Tensor x = at::empty({places, kWidth}), y = at::empty({20, kWidth});
      keyed_normal_(x, 5, "x" + std::to_string(step), 0.0, 1.0);
      keyed_normal_(y, 5, "y" + std::to_string(step), 0.0, 1.0);
      const StepResult result =
          pipeline.train_step({{"x", Input::ragged(x, lengths)},
                               {"y", y},
                               {"offsets", Input::offsets(at::tensor(offsets))}});
      pipeline.clip_grad_norm(1.0);
      optimizer.step();
      optimizer.zero_grad();
      if (pipeline.rank() != 0) continue;
      trained.losses.push_back(result.loss);
      for (const auto& [name, value] : result.auxiliary) trained.losses.push_back(value);
    }
    const std::lock_guard lock(mutex);
    for (const auto& [name, tensor] : pipeline.local_state_dict())
      trained.state[name] = tensor.clone();
  });
  return trained;
}

// Tests one in `every` combinations.
void expect_bits_of_one_rank(int every) {
  int number = 0, compared = 0;
  for (int bits = 0; bits < 8; ++bits) {
    const Kind kind{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    const Trained expected = train({kind.frozen, false, kind.ragged}, "1F1B", 1, 1);
    ASSERT_EQ(expected.losses.size(), 2u * 5u);
    for (const ScheduleInfo& info : schedule_table()) {
      if (info.name == "LoopedBFS") continue;  // its order of backwards differs
      for (const int ranks : {1, 2, 4}) {
        for (const int stages_per_rank : {1, 2}) {
          try {
            make_schedule(info.name, {ranks, stages_per_rank, kMicrobatches});
          } catch (const Error&) {
            continue;  // invalid combination
          }
          if (number++ % every != 0) continue;
          const std::string what = std::string(info.name) + " on " + std::to_string(ranks) + " x " +
                                   std::to_string(stages_per_rank) + text(kind);
          const Trained found = train(kind, std::string(info.name).c_str(), ranks, stages_per_rank);
          EXPECT_EQ(found.losses, expected.losses) << what;
          ASSERT_EQ(found.state.size(), expected.state.size()) << what;
          for (const auto& [name, tensor] : found.state)
            ASSERT_TRUE(at::equal(tensor, expected.state.at(name))) << what << " " << name;
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 120 / every);
}

TEST(PipelineMatrixTest, HasTheBitsOfOneRankForASampleOfKindsAndLayouts) {
  expect_bits_of_one_rank(7);
}
TEST(SlowPipelineMatrixTest, HasTheBitsOfOneRankForEveryKindAndLayout) {
  expect_bits_of_one_rank(1);
}

}  // namespace
}  // namespace sluice::test::pipeline_matrix_test
