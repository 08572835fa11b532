#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include "sluice/parts/observers.h"
#include "sluice/parts/stage.h"
#include "support/even_partition.h"
#include "support/expect_error.h"
#include "support/user_models.h"

namespace sluice::test {
namespace {

constexpr std::int64_t kDeferredWidth = 8;

Model model_of(std::vector<LayerSpec> layers) {
  return {std::move(layers), {"x", "y"}, {"prediction"}, &squared_error};
}

// Has a batch norm, with running mean and variance, between the blocks.
Model small_model() {
  std::vector<LayerSpec> layers = make_user_layers(UserModel::kShared, 4, kDeferredWidth, 0.1);
  layers[3] = layer_of<torch::nn::BatchNorm1dImpl>("norm", kDeferredWidth);
  return model_of(std::move(layers));
}

RankStages all_stages(const Model& model, const StageOptions& options = {}) {
  return build_stages(model, even_partition(model, make_stage_map(Placement::kLoop, 1, 2)), 0,
                      options);
}

std::vector<std::pair<std::string, at::Tensor>> tensors_of(const RankStages& stages) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& stage : stages.stages()) {
    for (const ParameterInfo& info : stage->parameters())
      tensors.emplace_back(info.name, info.tensor);
    for (const auto& buffer : stage->chunk().buffers()) tensors.push_back(buffer);
  }
  return tensors;
}

std::vector<at::Tensor> step_of(const RankStages& stages) {
  const Values batch{{"x", at::linspace(-1, 1, 4 * kDeferredWidth).reshape({4, kDeferredWidth})},
                     {"y", at::ones({4, kDeferredWidth})}};
  std::vector<at::Tensor> inputs, found;
  std::vector<Values> outputs;
  for (const auto& stage : stages.stages()) {
    outputs.push_back(stage->forward({7, 1, 0}, std::move(inputs), batch));
    inputs.clear();
    const at::Tensor& out = outputs.back().begin()->second;
    stage->keep(0, {out});
    inputs.push_back(out.detach().requires_grad_());
    found.push_back(out.detach());
  }
  at::Tensor gradient = at::ones_like(found.back());
  for (std::size_t i = stages.stages().size(); i-- > 0;) {
    Stage& stage = *stages.stages()[i];
    const std::vector<at::Tensor> received = stage.backward(0, {gradient});
    for (std::size_t p = 0; p < stage.parameters().size(); ++p)
      found.push_back(stage.gradient(p).clone());
    if (!received.empty()) gradient = received.front();
  }
  return found;
}

TEST(DeferredStagesTest, MatricesHaveNamesShapesAndTypesAndNoMemory) {
  const Model model = small_model();
  const RankStages made = all_stages(model), deferred = all_stages(model, {.deferred = true});
  for (std::size_t s = 0; s < 2; ++s) {
    const auto& expected = made.stages()[s]->parameters();
    const auto& found = deferred.stages()[s]->parameters();
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_FALSE(found.empty());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].name, expected[i].name);
      EXPECT_EQ(found[i].global_shape, expected[i].global_shape);
      EXPECT_EQ(meta_of(found[i].tensor), meta_of(expected[i].tensor));
      EXPECT_EQ(found[i].tensor.is_meta(), found[i].tensor.dim() >= 2) << found[i].name;
      EXPECT_TRUE(found[i].tensor.requires_grad() && found[i].tensor.is_leaf());
    }
  }
}

// 28672 x 8192 is the size of the largest matrices in a model of 70 billion parameters.
TEST(DeferredStagesTest, ModulesOfTorchOfAnySizeAreMadeWithoutMemory) {
  std::vector<LayerSpec> layers;
  for (int i = 0; i < 20; ++i)
    layers.push_back(linear_layer("layer" + std::to_string(i), i % 2 == 0 ? 8192 : 28672,
                                  i % 2 == 0 ? 28672 : 8192));
  layers.front().reads = {"x"};
  layers.push_back(layer_of<torch::nn::EmbeddingImpl>("table", 128256, 8192));
  layers.back().writes = {"prediction"};
  const Model model = model_of(std::move(layers));
  MemoryLedger ledger(1);
  const MemoryLedger::Scope scope(ledger, 0);
  const RankStages stages = all_stages(model, {.deferred = true});
  std::int64_t numbers = 0, vectors = 0;
  for (const auto& [name, tensor] : tensors_of(stages)) {
    numbers += tensor.numel();
    if (tensor.dim() < 2) vectors += static_cast<std::int64_t>(tensor.nbytes());
  }
  EXPECT_GT(numbers, 5'000'000'000);
  EXPECT_LT(vectors, 2 << 20);
  EXPECT_EQ(ledger.live_bytes(0), vectors);
  EXPECT_EQ(ledger.peak_bytes(0), vectors);
}

TEST(DeferredStagesTest, WithMemoryTheyAreTheStagesThatTheyWouldHaveBeen) {
  const Model model = small_model();
  RankStages made = all_stages(model), deferred = all_stages(model, {.deferred = true});
  deferred.to_empty(at::kCPU);
  made.draw_weights(3);
  deferred.draw_weights(3);
  const auto expected = tensors_of(made), found = tensors_of(deferred);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::equal(found[i].second, expected[i].second)) << found[i].first;
  const std::vector<at::Tensor> numbers = step_of(made), same = step_of(deferred);
  ASSERT_EQ(same.size(), numbers.size());
  for (std::size_t i = 0; i < same.size(); ++i) EXPECT_TRUE(at::equal(same[i], numbers[i])) << i;
}

TEST(DeferredStagesTest, TiedParametersShareStorageOnceTheyHaveSome) {
  Model model = model_of(make_user_layers(UserModel::kMlp, 2, kDeferredWidth, 0.0));
  model.layers.back().ties = {{"weight", "first.weight"}};
  RankStages stages = all_stages(model, {.deferred = true});
  stages.to_empty(at::kCPU);
  const ParameterInfo& first = stages.stages().front()->parameters().front();
  bool found = false;
  for (const ParameterInfo& info : stages.stages().back()->parameters()) {
    if (info.tied_to.empty()) continue;
    found = true;
    EXPECT_EQ(info.tensor.const_data_ptr(), first.tensor.const_data_ptr());
  }
  EXPECT_TRUE(found);
}

struct WithConstants : torch::nn::Module {
  explicit WithConstants(std::int64_t width) : linear(width, width) {
    register_module("linear", linear);
    frequencies = register_buffer("frequencies", 1 / (1 + at::arange(width, at::kFloat)));
    mask = register_buffer("mask", at::ones({width, width}).tril());
    const at::Tensor drawn = register_buffer("drawn", at::rand({width, width}));
    largest = register_buffer("largest", at::full({1}, drawn.max().item<double>()));
  }
  at::Tensor forward(const at::Tensor& x) { return at::matmul(linear(x) * frequencies, mask); }
  torch::nn::Linear linear;
  at::Tensor frequencies, mask, largest;
};

TEST(DeferredStagesTest, BuffersKeepTheNumbersThatModulesGiveThem) {
  std::vector<LayerSpec> layers = {layer_of<WithConstants>("constants", kDeferredWidth),
                                   layer_of<torch::nn::BatchNorm1dImpl>("norm", kDeferredWidth)};
  layers.front().reads = {"x"};
  layers.back().writes = {"prediction"};
  const Model model = model_of(std::move(layers));
  RankStages deferred = all_stages(model, {.deferred = true});
  deferred.to_empty(at::kCPU);
  const RankStages made = all_stages(model);
  for (std::size_t s = 0; s < 2; ++s) {
    const auto expected = made.stages()[s]->chunk().buffers();
    const auto found = deferred.stages()[s]->chunk().buffers();
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_GE(found.size(), 2u);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(at::equal(found[i].second, expected[i].second)) << found[i].first;
  }
}

struct HoldsAView : torch::nn::Module {
  HoldsAView() : linear(2, 2) {
    register_module("linear", linear);
    const torch::NoGradGuard no_grad;
    turned = linear->weight.t();
  }
  at::Tensor forward(const at::Tensor& x) { return at::matmul(x, turned); }
  torch::nn::Linear linear;
  at::Tensor turned;
};

// With memory of its own, the view would no longer belong to a parameter.
TEST(DeferredStagesTest, AViewOfAMatrixHasNoMemoryEither) {
  LayerSpec layer = layer_of<HoldsAView>("view");
  layer.reads = {"x"};
  LayerSpec last = linear_layer("last", 2, 2);
  last.writes = {"prediction"};
  const RankStages stages = all_stages(model_of({layer, last}), {.deferred = true});
  EXPECT_TRUE(dynamic_cast<HoldsAView&>(stages.stages()[0]->chunk().module(0)).turned.is_meta());
}

struct ReachesIntoItsTable : torch::nn::Module {
  ReachesIntoItsTable() {
    at::Tensor table = register_buffer("table", at::zeros({2, 2}));
    table.accessor<float, 2>()[0][1] = 1;
  }
  at::Tensor forward(const at::Tensor& x) { return x; }
};

TEST(DeferredStagesTest, RejectsModulesThatCannotBeDeferred) {
  const auto refusal = [](LayerSpec layer) {
    layer.reads = {"x"};
    LayerSpec last = linear_layer("last", 2, 2);
    last.writes = {"prediction"};
    const Model model = model_of({std::move(layer), std::move(last)});
    const Error error = error_of([&] { all_stages(model, {.deferred = true}); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return std::string(error.what());
  };
  const std::string reaches = refusal(layer_of<ReachesIntoItsTable>("b"));
  EXPECT_EQ(reaches.rfind("layer 'b' cannot be made without memory: ", 0), 0u) << reaches;
  EXPECT_TRUE(reaches.ends_with(
      "give the device (torch::kCPU) of tensors whose memory its constructor accesses"))
      << reaches;
  LayerSpec ready = linear_layer("c", 2, 2);
  ready.make = [module = std::make_shared<torch::nn::LinearImpl>(2, 2)] { return module; };
  EXPECT_EQ(refusal(ready),
            "the module of layer 'c' is also held elsewhere, and would be emptied there; "
            "StageOptions::deferred; make a new one in LayerSpec::make");
}

TEST(DeferredStagesTest, WhatNeedsMemoryIsRefusedBeforeThereIsSome) {
  RankStages stages = all_stages(small_model(), {.deferred = true});
  const std::string rest = "; call RankStages::to_empty(device) before",
                    what = "parameter 'first.weight' is on the meta device, without memory; ";
  EXPECT_EQ(message_of([&] { stages.draw_weights(0); }), what + "RankStages::draw_weights" + rest);
  EXPECT_EQ(message_of([&] { stages.to(at::kCPU); }), what + "RankStages::to" + rest);
}

TEST(DeferredStagesTest, OtherFactoriesAreLeftAlone) {
  all_stages(small_model(), {.deferred = true});
  EXPECT_FALSE(at::empty({4, 4}).is_meta());
  EXPECT_FALSE(all_stages(small_model()).stages()[0]->parameters()[0].tensor.is_meta());
}

}  // namespace
}  // namespace sluice::test
