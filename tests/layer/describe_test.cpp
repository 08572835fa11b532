#include "sluice/model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>

#include "plan/predict/activation_memory.h"
#include "sluice/partition.h"
#include "support/expect_error.h"
#include "support/user_models.h"

namespace sluice::test {
namespace {

constexpr std::int64_t kModelWidth = 16;

BatchMetas batch_of(std::int64_t rows) {
  const TensorMeta meta{{rows, kModelWidth}, at::kFloat};
  return {{"x", meta}, {"y", meta}};
}

ModelSpec described(UserModel model) {
  return describe(make_user_layers(model, 2, kModelWidth, 0.1), batch_of(4));
}

std::vector<std::string> names(const LayerInfo& layer) {
  std::vector<std::string> result;
  for (const ParameterSpec& parameter : layer.parameters) result.push_back(parameter.name);
  return result;
}

TEST(DescribeTest, NamesParametersAndValuesOfAUsersLayers) {
  const ModelSpec model = described(UserModel::kMlp);
  ASSERT_EQ(model.layers.size(), 4u);
  EXPECT_EQ(model.family, "");
  EXPECT_EQ(model.num_blocks(), 4);
  EXPECT_EQ(names(model.layers[1]),
            (std::vector<std::string>{"block0.norm.weight", "block0.norm.bias", "block0.up.weight",
                                      "block0.up.bias", "block0.down.weight", "block0.down.bias"}));
  EXPECT_EQ(model.layers[1].parameters[2].shape,
            (std::vector<std::int64_t>{2 * kModelWidth, kModelWidth}));
  EXPECT_EQ(model.layers[0].reads, std::vector<std::string>{"x"});
  EXPECT_EQ(model.layers[3].writes[0].name, "prediction");
  EXPECT_EQ(model.layers[3].writes[0].sizes,
            (std::vector<std::int64_t>{kMicrobatchRows, kModelWidth}));
  EXPECT_EQ(model.layers[3].writes[0].bytes_at({9, 0}), 9 * kModelWidth * 4);
}

TEST(DescribeTest, CountsTheProductsOfForwardAndBackward) {
  const ModelSpec model = described(UserModel::kShared);
  const MicrobatchShape shape{10, 0};
  const double product = 2.0 * 10 * kModelWidth * kModelWidth;
  const auto flops = [&](std::size_t layer) {
    const LayerCost& cost = model.layers[layer].cost;
    return std::vector<double>{cost.forward_flops.at(shape) / product,
                               cost.input_flops.at(shape) / product,
                               cost.weight_flops.at(shape) / product};
  };
  EXPECT_EQ(flops(0), (std::vector<double>{1, 0, 1}));  // the batch needs no gradient
  EXPECT_EQ(flops(1), (std::vector<double>{4, 4, 4}));  // to twice the width and back
  EXPECT_EQ(flops(2), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(flops(3), (std::vector<double>{1, 1, 1}));
}

TEST(DescribeTest, CountsConvolutionsByTheirOutput) {
  LayerSpec layer = layer_of<torch::nn::Conv2dImpl>("conv", torch::nn::Conv2dOptions(3, 8, 3));
  layer.reads = {"image"};
  layer.shapes = nullptr;
  const ModelSpec model = describe({layer}, {{"image", {{2, 3, 10, 12}, at::kFloat}}});
  EXPECT_EQ(model.layers[0].cost.forward_flops.at({2, 0}), 2.0 * (2 * 8 * 8 * 10) * (3 * 3 * 3));
  EXPECT_EQ(model.layers[0].writes[0].sizes,
            (std::vector<std::int64_t>{kMicrobatchRows, 8, 8, 10}));
}

TEST(DescribeTest, CountsWhatIsKeptForTheBackwardAndForTheWeightsAlone) {
  const ModelSpec model = described(UserModel::kMlp);
  const LayerCost& linear = model.layers[3].cost;
  const MicrobatchShape shape{10, 0};
  const double value = 10 * kModelWidth * 4;
  EXPECT_EQ(linear.after_forward.at(shape), value);    // keeps its input
  EXPECT_EQ(linear.after_input.at(shape), 2 * value);  // keeps the gradient of its output too
  // Kept: x, mean and inverse root of the norm, its result, two inner values of twice the width,
  // and the dropout mask.
  EXPECT_EQ(model.layers[1].cost.after_forward.at(shape),
            10 * 4 * (6 * kModelWidth + 2 + kModelWidth));
}

TEST(DescribeTest, ADescriptionIsSplitByNamesAndPredicted) {
  const ModelSpec model = described(UserModel::kMlp);
  PartitionOptions options;
  options.num_ranks = 2;
  options.cuts = {"block0"};
  const Partition partition = make_partition(model, options);
  ASSERT_EQ(partition.num_stages(), 2);
  EXPECT_EQ(partition.stages[0].layers, (std::vector<int>{0, 1}));
  EXPECT_EQ(stage_shapes(model, partition, 3, 1)[1].input,
            (std::vector<std::int64_t>{3, kModelWidth}));
  const MicrobatchShape shape{3, 1};
  std::vector<ActivationBytes> stages;
  for (const StageContent& stage : partition.stages)
    stages.push_back(stage_activations(model, stage, shape));
  const std::vector<Action> row = {Action::forward(0, 0), Action::forward(0, 1),
                                   Action::backward(0, 0), Action::backward(0, 1)};
  EXPECT_EQ(row_activations(row, stages).kept, 2 * stages[0].after_forward);
  EXPECT_GT(stages[0].after_forward, 0);
}

TEST(DescribeTest, ALayerThatSaysWhatItCostsIsNotRun) {
  std::vector<LayerSpec> layers = make_user_layers(UserModel::kMlp, 2, kModelWidth, 0.0);
  LayerCost cost;
  cost.forward_flops.per_row = 7;
  layers[1].cost = cost;
  layers[1].role = LayerRole::kOther;
  layers[1].forward = [](torch::nn::Module&, const std::vector<at::Tensor>&) {
    ADD_FAILURE() << "was run";
    return std::vector<at::Tensor>();
  };
  const ModelSpec model = describe(layers, batch_of(4));
  EXPECT_EQ(model.layers[1].cost, cost);
  EXPECT_EQ(model.layers[1].role, LayerRole::kOther);
  EXPECT_EQ(model.layers[1].parameters.size(), 6u);
  EXPECT_EQ(model.layers[2].cost.input_flops.at({1, 0}), 2.0 * 4 * kModelWidth * kModelWidth);
}

TEST(DescribeTest, AValueThatIsNotThereHasNoElements) {
  LayerSpec layer;
  layer.name = "optional";
  layer.reads = {"x"};
  layer.writes = {"hidden", "extra"};
  layer.forward = [](torch::nn::Module&, const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{inputs[0] * 2, at::Tensor()};
  };
  const ModelSpec model = describe({layer}, batch_of(2));
  EXPECT_EQ(model.layers[0].writes[0].bytes_at({2, 0}), 2 * kModelWidth * 4);
  EXPECT_EQ(model.layers[0].writes[1].bytes_at({2, 0}), 0);
  EXPECT_EQ(model.layers[0].cost.after_forward.at({2, 0}), 0);
}

TEST(DescribeTest, RefusesABatchWithoutRowsAndValuesThatNobodyWrites) {
  const auto layers = make_user_layers(UserModel::kMlp, 1, kModelWidth, 0.0);
  const auto refusal = [&](const BatchMetas& batch) {
    const Error error = error_of([&] { describe(layers, batch); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.fact();
  };
  EXPECT_EQ(refusal({}), "the batch has no inputs");
  EXPECT_EQ(refusal({{"x", {{}, at::kFloat}}}), "'x' has no rows");
  EXPECT_EQ(refusal({{"x", {{4, kModelWidth}, at::kFloat}}, {"y", {{3, kModelWidth}, at::kFloat}}}),
            "'y' has 3 rows, but 'x' has 4");
  EXPECT_EQ(refusal({{"z", {{4, kModelWidth}, at::kFloat}}}),
            "layer 'first' reads 'x', which no earlier layer writes");
}

}  // namespace
}  // namespace sluice::test
