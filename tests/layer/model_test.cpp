// Models of modules of one's own.
#include "sluice/model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "sluice/parts/chunk.h"
#include "support/expect_error.h"

namespace sluice::test {
namespace {

TEST(FromSequentialTest, RunsTheChildrenThemselvesUnderTheirNames) {
  torch::nn::Sequential net;
  net->push_back("in", torch::nn::Linear(3, 4));
  net->push_back("act", torch::nn::Tanh());
  net->push_back("out", torch::nn::Linear(4, 2));
  const Model model = from_sequential(net, "features");
  Chunk chunk(model.layers, 0, {}, model.outputs);
  std::vector<std::string> names;
  for (const ParameterInfo& info : chunk.parameters()) {
    names.push_back(info.name);
    EXPECT_TRUE(info.tensor.is_same(net->named_parameters()[info.name]));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"in.weight", "in.bias", "out.weight", "out.bias"}));
  const at::Tensor before = net->named_parameters()["in.weight"].clone();
  initialize_parameters(chunk, 7);  // they hold their weights already
  EXPECT_TRUE(at::equal(before, net->named_parameters()["in.weight"]));
  const at::Tensor x = at::ones({5, 3});
  EXPECT_TRUE(
      at::equal(chunk.forward({}, {{"features", x}}, 0, 1, 0).get("hidden"), net->forward(x)));
}

struct Unclonable : torch::nn::Module {
  explicit Unclonable(const torch::nn::Linear& inner) : linear(inner) {
    register_module("linear", linear);
  }
  at::Tensor forward(const at::Tensor& x) { return linear(x); }
  torch::nn::Linear linear;
};

TEST(FromSequentialTest, TiesWhatTwoChildrenShare) {
  const torch::nn::Linear shared(3, 3);
  torch::nn::Sequential net(shared, torch::nn::Tanh(), shared);
  const Model model = from_sequential(net);
  EXPECT_TRUE(model.layers[0].ties.empty());
  EXPECT_EQ(model.layers[2].ties, (std::vector<std::pair<std::string, std::string>>{
                                      {"weight", "0.weight"}, {"bias", "0.bias"}}));
  Chunk chunk(model.layers, 0, {}, model.outputs);
  const at::Tensor x = at::ones({2, 3});
  EXPECT_TRUE(at::equal(chunk.forward({}, {{"x", x}}, 0, 1, 0).get("hidden"), net->forward(x)));

  torch::nn::Sequential odd(shared, std::make_shared<Unclonable>(shared));
  const Error error = error_of([&] { from_sequential(odd); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_NE(error.fact().find("child '1' shares a parameter"), std::string::npos) << error.what();
  EXPECT_NE(error.remedy().find("torch::nn::Cloneable"), std::string::npos) << error.what();
}

TEST(FromSequentialTest, RefusesOneWithoutChildren) {
  EXPECT_EQ(error_of([] { from_sequential(torch::nn::Sequential()); }).kind(), ErrorKind::kUsage);
}

TEST(MeanLossTest, WeighsAMicrobatchByItsRows) {
  const LossFunction loss = mean_loss(
      [](const Values& out, const Values& in) { return (out["hidden"] - in["y"]).mean(); });
  const LossValue value = loss({{"hidden", at::full({3, 2}, 5.0)}},
                               {{"scalar", at::ones({})}, {"y", at::ones({3, 2})}});
  EXPECT_EQ(value.count, 3);
  EXPECT_EQ(value.loss.item<double>(), 12.0);
  EXPECT_EQ(count_rows({}), 0);
  EXPECT_EQ(count_rows({{"missing", at::Tensor()}, {"x", at::ones({4, 1})}}), 4);
}

}  // namespace
}  // namespace sluice::test
