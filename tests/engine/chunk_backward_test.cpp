#include "sluice/parts/chunk.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "layer/initialize_chunks.h"
#include "sluice/schedule.h"
#include "support/user_batches.h"

namespace sluice::test {
namespace {

using Tensors = std::vector<at::Tensor>;

// Computes y = x W^T + b and its gradients without autograd, for a chunk that is one linear layer.
class HandWrittenLinear final : public ChunkBackward {
 public:
  HandWrittenLinear(const Chunk& chunk, const GradientSums& sums)
      : layer_(chunk.layers().front()),
        num_inputs_(chunk.inputs().size()),
        weight_(*sums.at(0)),
        bias_(*sums.at(1)) {}

  Values forward(const MicrobatchKey&, Values received, const Values& batch) override {
    const at::NoGradGuard no_grad;
    const std::string& name = layer_.reads.front();
    x_ = received.has(name) ? received.get(name) : batch.get(name);
    y_ = at::linear(x_, weight_.parameter(), bias_.parameter());
    y_.set_requires_grad(true);
    return {{layer_.writes.front(), y_}};
  }
  void keep(const Tensors& roots) override {
    if (roots.front().is_same(y_)) {
      y_.reset();
    } else {
      loss_ = roots.front();  // on the last stage the root is the loss
    }
  }
  Tensors full(Tensors root_gradients) override {
    Tensors result = input(std::move(root_gradients), false);
    weight();
    return result;
  }
  Tensors input(Tensors root_gradients, bool /*hold_weights*/) override {
    gradient_ = loss_.defined() ? torch::autograd::grad({loss_}, {y_}, root_gradients).front()
                                : root_gradients.front();
    loss_.reset();
    y_.reset();
    Tensors result(num_inputs_);
    if (num_inputs_ > 0) result.front() = gradient_.mm(weight_.parameter().detach());
    return result;
  }
  void weight() override {
    weight_.add(gradient_.t().mm(x_.detach()));
    bias_.add(gradient_.sum(0));
  }

 private:
  const LayerSpec& layer_;
  const std::size_t num_inputs_;
  GradientSum& weight_;
  GradientSum& bias_;
  at::Tensor x_, y_, loss_, gradient_;
};

ChunkBackwardMaker by_hand(int* num_made = nullptr) {
  return [num_made](Chunk& chunk, const GradientSums& sums) {
    if (num_made) ++*num_made;
    return std::make_unique<HandWrittenLinear>(chunk, sums);
  };
}

Model linear_model(int num_layers) {
  std::vector<LayerSpec> layers;
  for (int i = 0; i < num_layers; ++i)
    layers.push_back(linear_layer("layer" + std::to_string(i), 16, 16));
  layers.front().reads = {"x"};
  layers.back().writes = {"prediction"};
  return {layers, {"x", "y"}, {"prediction"}, &squared_error};
}

TEST(ChunkBackwardTest, AHandWrittenOneTrainsToTheBitsOfAutograd) {
  for (const char* schedule : {"1F1B", "ZBVZeroBubble"}) {
    const Program program = lowered(make_schedule(schedule, {2, 0, 4}));
    const Model model = linear_model(program.num_stages());
    const auto steps = user_batches(3, 4, {2, 3});
    const TrainedModel expected = train_in_one_loop(model, steps, {});
    for (const int every : {1, 2}) {
      HarnessOptions options;
      std::vector<int> num_made(static_cast<std::size_t>(program.num_stages()));
      options.backward_of = [&, every](int stage) {
        return stage % every == 0 ? by_hand(&num_made[stage]) : ChunkBackwardMaker();
      };
      const TrainedModel got = train_in_pipeline(model, program, steps, options);
      for (const std::string& error : got.errors) ASSERT_EQ(error, "") << schedule;
      EXPECT_TRUE(same_bits(got, expected)) << schedule << " " << every;
      for (int stage = 0; stage < program.num_stages(); ++stage)
        EXPECT_EQ(num_made[stage], stage % every == 0 ? 3 * 4 : 0);
    }
  }
}

TEST(ChunkBackwardTest, ItsInputHalfLeavesTheSumsToItsWeightHalf) {
  Stage stage(1, Chunk({linear_layer("only", 16, 16)}, 1, {"hidden"}, {"hidden"}), by_hand());
  initialize_parameters(stage.chunk(), 5);
  at::Tensor input = at::ones({2, 16});
  input.set_requires_grad(true);
  stage.keep(0, {stage.forward({7, 1, 0}, {input}, {}).get("hidden")});
  EXPECT_TRUE(stage.backward_input(0, {at::ones({2, 16})}).at(0).defined());
  EXPECT_FALSE(stage.gradient(0).defined());
  EXPECT_EQ(stage.num_live(), 1u);
  stage.backward_weight(0);
  EXPECT_TRUE(at::equal(stage.gradient(0), at::full({16, 16}, 2.0)));
  EXPECT_TRUE(at::equal(stage.gradient(1), at::full({16}, 2.0)));
  EXPECT_EQ(stage.num_live(), 0u);
  EXPECT_TRUE(stage.splits_backward());
}

class NothingForW final : public ChunkBackward {
 public:
  NothingForW(const Chunk& chunk, const GradientSums& sums) : linear_(chunk, sums) {}
  Values forward(const MicrobatchKey& key, Values received, const Values& batch) override {
    return linear_.forward(key, std::move(received), batch);
  }
  void keep(const Tensors& roots) override { linear_.keep(roots); }
  Tensors full(Tensors root_gradients) override { return linear_.full(std::move(root_gradients)); }
  Tensors input(Tensors root_gradients, bool hold_weights) override {
    hold_ = hold_weights;
    Tensors result = linear_.input(std::move(root_gradients), hold_weights);
    if (!hold_) linear_.weight();
    return result;
  }
  void weight() override {
    if (hold_) linear_.weight();
  }
  bool splits() const override { return false; }

 private:
  HandWrittenLinear linear_;
  bool hold_ = false;
};

TEST(ChunkBackwardTest, PassesHoldWeightsToCustomBackward) {
  for (const bool hold : {false, true}) {
    Stage stage(1, Chunk({linear_layer("only", 16, 16)}, 1, {"hidden"}, {"hidden"}),
                [](Chunk& chunk, const GradientSums& sums) {
                  return std::make_unique<NothingForW>(chunk, sums);
                });
    initialize_parameters(stage.chunk(), 5);
    stage.defer_early_weights(hold);
    stage.keep(0, {stage.forward({7, 1, 0}, {at::ones({2, 16})}, {}).get("hidden")});
    EXPECT_TRUE(stage.splits_backward());
    stage.backward_input(0, {at::ones({2, 16})});
    EXPECT_FALSE(stage.splits_backward());
    EXPECT_EQ(stage.gradient(0).defined(), !hold);
    stage.backward_weight(0);
    EXPECT_TRUE(at::equal(stage.gradient(0), at::full({16, 16}, 2.0)));
  }
}

}  // namespace
}  // namespace sluice::test
