#include "sluice/model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "layer/initialize_chunks.h"
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
  initialize_parameters(chunk, 7);  // the modules already hold their weights
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

// LibTorch accepts a Sequential inside another one only if its forward is not a template.
struct InnerImpl : torch::nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  at::Tensor forward(const at::Tensor& x) { return SequentialImpl::forward(x); }
};
TORCH_MODULE(Inner);

TEST(FromSequentialTest, ExpandsANestedSequentialWhereItIsAsked) {
  const Inner inner(torch::nn::Linear(3, 4), torch::nn::Tanh());
  const torch::nn::Sequential net(torch::nn::Linear(3, 3), inner, torch::nn::Linear(4, 2));
  const auto names_of = [](const Model& model) {
    std::vector<std::string> names;
    for (const LayerSpec& layer : model.layers) names.push_back(layer.name);
    return names;
  };
  EXPECT_EQ(names_of(from_sequential(net)), (std::vector<std::string>{"0", "1", "2"}));
  const Model model = from_sequential(net, "x", Nested::kExpanded);
  EXPECT_EQ(names_of(model), (std::vector<std::string>{"0", "1.0", "1.1", "2"}));
  Chunk chunk(model.layers, 0, {}, model.outputs);
  EXPECT_EQ(chunk.parameters()[2].name, "1.0.weight");
  EXPECT_TRUE(chunk.parameters()[2].tensor.is_same(net->named_parameters()["1.0.weight"]));
  torch::nn::Sequential copy = net;
  const at::Tensor x = at::ones({5, 3});
  EXPECT_TRUE(at::equal(chunk.forward({}, {{"x", x}}, 0, 1, 0).get("hidden"), copy->forward(x)));
}

struct ScaledImpl : torch::nn::Cloneable<ScaledImpl> {
  ScaledImpl() { reset(); }
  void reset() override { linear = register_module("linear", torch::nn::Linear(3, 3)); }
  at::Tensor forward(const at::Tensor& x, double by) { return by * linear(x); }
  torch::nn::Linear linear{nullptr};
};

TEST(FromChildrenTest, CallsTheElementsOfAListOrADictionaryAsItIsTold) {
  const auto call = [](ScaledImpl& block, const at::Tensor& x) { return block.forward(x, 2.0); };
  const auto first = std::make_shared<ScaledImpl>(), second = std::make_shared<ScaledImpl>();
  torch::nn::ModuleList list;
  list->push_back(first);
  list->push_back(second);
  list->push_back(first);
  torch::nn::ModuleDict dictionary;
  dictionary->update({{"b", first}, {"a", second}});

  const Model model = from_children<ScaledImpl>(*list, call, "in");
  Chunk chunk(model.layers, 0, {}, model.outputs);
  EXPECT_TRUE(chunk.parameters()[0].tensor.is_same(first->linear->weight));
  EXPECT_EQ(chunk.parameters()[4].tied_to, "0.linear.weight");
  const at::Tensor x = at::ones({2, 3});
  const at::Tensor expected = call(*first, call(*second, call(*first, x)));
  EXPECT_TRUE(at::equal(chunk.forward({}, {{"in", x}}, 0, 1, 0).get("hidden"), expected));

  const Model by_key = from_children<ScaledImpl>(*dictionary, call);
  EXPECT_EQ(by_key.layers[0].name, "b");
  EXPECT_EQ(by_key.layers[1].name, "a");
}

TEST(FromChildrenTest, RefusesAChildOfAnotherClass) {
  torch::nn::ModuleList list(torch::nn::Linear(3, 3), torch::nn::Tanh());
  const auto call = [](torch::nn::LinearImpl& linear, const at::Tensor& x) {
    return linear.forward(x);
  };
  const Error error = error_of([&] { from_children<torch::nn::LinearImpl>(*list, call); });
  EXPECT_NE(error.fact().find("child '1' is a torch::nn::Tanh"), std::string::npos) << error.what();
  const torch::nn::ModuleList none;
  EXPECT_THROW(from_children<torch::nn::LinearImpl>(*none, call), Error);
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
