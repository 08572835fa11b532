#include "layer/tape.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "layer/deferred.h"
#include "layer/interception_key.h"
#include "sluice/layer.h"
#include "sluice/parts/observers.h"

namespace sluice::test {
namespace {

using torch::nn::Module;
using Tensors = std::map<std::string, at::Tensor>;

// Tensor operations of constructors, by name and in this order. Each draws random numbers after the
// previous ones.
using Build = std::function<void(Tensors& kept)>;
const std::vector<std::pair<std::string, Build>>& builds() {
  static const std::vector<std::pair<std::string, Build>> all = {
      {"plain draws",
       [](Tensors& kept) {
         kept["uniform"] = torch::rand({3, 5});
         kept["normal"] = torch::empty({7, 33}).normal_(1.0, 3.0);
         kept["vector"] = torch::randn({11});
         kept["one"] = torch::randn({});
         kept["integers"] = torch::randint(100, {4, 4});
         kept["order"] = torch::randperm(9);
       }},
      {"large draws of other types",
       [](Tensors& kept) {
         kept["float"] = torch::randn({1021, 331});
         kept["double"] = torch::randn({1021, 131}, torch::kDouble);
         kept["half"] = torch::empty({513, 517}, torch::kBFloat16).normal_();
         kept["uniform"] = torch::rand({331, 1021}, torch::kDouble);
         kept["across"] = torch::empty({401, 403}).t().normal_();
         kept["coins"] = torch::empty({801, 403}).bernoulli_(0.3);
         kept["decay"] = torch::empty({401, 803}).exponential_();
       }},
      {"initializers",
       [](Tensors& kept) {
         const torch::NoGradGuard no_grad;
         kept["orthogonal"] = torch::nn::init::orthogonal_(torch::empty({6, 4}));
         kept["sparse"] = torch::nn::init::sparse_(torch::empty({8, 4}), 0.5);
         kept["xavier"] = torch::nn::init::xavier_normal_(torch::empty({8, 4}));
         kept["eye"] = torch::nn::init::eye_(torch::empty({4, 4}));
         kept["dirac"] = torch::nn::init::dirac_(torch::empty({4, 4, 3}));
       }},
      {"draws that go by numbers",
       [](Tensors& kept) {
         const at::Tensor chances = torch::rand({5, 6});
         kept["chances"] = chances;
         kept["coins"] = torch::bernoulli(chances);
         kept["chosen"] = torch::multinomial(chances, 3);
         kept["counts"] = torch::poisson(chances * 9);
         kept["like"] = torch::randn_like(chances);
         kept["dropped"] = torch::dropout(chances, 0.5, /*train=*/true);
       }},
      {"tables",
       [](Tensors& kept) {
         const at::Tensor positions = torch::arange(40, torch::kFloat);
         const at::Tensor rates = 1.0 / torch::pow(10000.0, torch::arange(0, 8, 2) / 8.0);
         const at::Tensor angles = torch::outer(positions, rates);
         kept["cos"] = angles.cos();
         kept["sin"] = torch::cat({angles, angles}, -1).sin().to(torch::kDouble);
         kept["turned"] = torch::polar(torch::ones_like(angles), angles);
         kept["mask"] = torch::ones({6, 6}).tril().view({1, 1, 6, 6});
         kept["filled"] = torch::full({6, 6}, -INFINITY).triu(1);
         kept["where"] = torch::where(torch::ones({3, 3}).tril().to(torch::kBool),
                                      torch::zeros({3, 3}), torch::full({3, 3}, -1e9));
         kept["grid"] = torch::stack(torch::meshgrid({torch::arange(3), torch::arange(4)}, "ij"));
       }},
      {"writes in place",
       [](Tensors& kept) {
         at::Tensor table = torch::zeros({5, 6});
         table[2].fill_(3);
         table.index_put_({torch::tensor({0, 4}), torch::tensor({1, 2})},
                          torch::tensor({7.f, 8.f}));
         table.select(1, 5).copy_(torch::linspace(0, 1, 5));
         table.mul_(torch::tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}));
         kept["table"] = table;
         kept["row"] = table[4];
         std::vector<float> own = {1, 2, 3, 4};
         kept["own"] = torch::empty({2, 2}).copy_(torch::from_blob(own.data(), {2, 2}));
         at::Tensor grown = torch::empty({0, 2});
         grown.resize_({3, 2}).fill_(4);
         kept["grown"] = grown;
       }},
      {"numbers that it reads",
       [](Tensors& kept) {
         const at::Tensor rates = torch::linspace(0, 0.3, 4);
         for (int i = 0; i < 4; ++i)
           kept["rate" + std::to_string(i)] = torch::full({2}, rates[i].item<double>());
         const at::Tensor drawn = torch::randn({4, 4});
         kept["largest"] = drawn / drawn.abs().max().item<float>();
         kept["above"] = drawn.nonzero();
         kept["drawn"] = drawn.masked_select(drawn > 0);
         kept["same"] = torch::full({1}, torch::equal(drawn, drawn) ? 1.0 : 0.0);
         kept["here"] = drawn.to(torch::kCPU).cpu();
       }},
      {"a generator of its own",
       [](Tensors& kept) {
         at::Generator own = at::detail::createCPUGenerator(5);
         kept["first"] = torch::empty({200, 900}).uniform_(0, 1, own);
         const at::Generator before = own.clone();
         kept["second"] = torch::empty({3, 3}, torch::kCPU).uniform_(0, 1, own);
         kept["again"] = torch::empty({3, 3}).uniform_(0, 1, before);
       }},
      {"memory that is asked for",
       [](Tensors& kept) {
         kept["drawn"] = torch::randn({3, 3}, torch::kCPU);
         kept["mixed"] = torch::randn({3, 3}) + kept["drawn"];
         at::Tensor given = torch::zeros({2, 2});
         given.set_data(torch::ones({2, 2}, torch::kCPU));
         kept["given"] = given;
         at::Tensor table = torch::empty({2, 2}, torch::kCPU);
         table.accessor<float, 2>()[1][1] = 3;
         table.index({1, 0}).fill_(2);
         table[0].copy_(torch::ones({2, 2})[0]);
         kept["table"] = table;
       }},
  };
  return all;
}

// Runs all builds, keeps the tensors of one build ("": all), and draws once more at the end.
struct Built : Module {
  explicit Built(const std::string& kept_name) {
    for (const auto& [name, build] : builds()) {
      Tensors tensors;
      build(tensors);
      for (const auto& [inner, tensor] : tensors)
        if (kept_name.empty() || kept_name == name) kept[name + ", " + inner] = tensor;
    }
    last = torch::randn({4});
  }
  Tensors kept;
  at::Tensor last;
};

template <typename Make>
auto keyed(const Make& make) {
  return [make]() -> std::shared_ptr<Module> {
    const KeyedRandomScope scope(3, 0, "made", 0);
    return make();
  };
}

void expect_same(const at::Tensor& found, const at::Tensor& expected, const std::string& name) {
  ASSERT_TRUE(found.is_cpu()) << name;
  EXPECT_EQ(found.dtype(), expected.dtype()) << name;
  EXPECT_EQ(found.strides(), expected.strides()) << name;
  EXPECT_TRUE(at::equal(at::nan_to_num(found), at::nan_to_num(expected))) << name;
}

TEST(TapeTest, WhatIsKeptHasTheNumbersThatItHasWithMemory) {
  const auto plain = keyed([] { return std::make_shared<Built>(""); })();
  const auto& expected = dynamic_cast<const Built&>(*plain);
  std::vector<std::string> names = {""};
  for (const auto& [name, build] : builds()) names.push_back(name);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const auto made = make_with_memory_for_kept(
        keyed([&name] { return std::make_shared<Built>(name); }), Drawn::kByDefault);
    const auto& found = dynamic_cast<const Built&>(*made);
    EXPECT_FALSE(found.kept.empty());
    for (const auto& [inner, tensor] : found.kept)
      expect_same(tensor, expected.kept.at(inner), inner);
    expect_same(found.last, expected.last, "last");
  }
}

struct SomeParametersImpl : Module {
  SomeParametersImpl() : table(50, 8), up(8, 32), norm(8) {
    register_module("table", table);
    register_module("up", up);
    register_module("norm", norm);
    frozen = register_parameter("frozen", torch::rand({8, 8}), /*requires_grad=*/false);
    scale = register_parameter("scale", torch::rand({8}));
    const torch::NoGradGuard no_grad;
    turned = up->weight.t();
  }
  torch::nn::Embedding table;
  torch::nn::Linear up;
  torch::nn::BatchNorm1d norm;
  at::Tensor frozen, scale, turned;
};

TEST(TapeTest, ParametersStayTheSameVariablesWithTheirViews) {
  const auto make = keyed([] { return std::make_shared<SomeParametersImpl>(); });
  const auto expected = make();
  const auto made = make_with_memory_for_kept(make, Drawn::kNone);
  const auto names = expected->named_parameters();
  for (const auto& item : made->named_parameters()) {
    expect_same(item.value().detach(), names[item.key()].detach(), item.key());
    EXPECT_EQ(item.value().requires_grad(), names[item.key()].requires_grad()) << item.key();
    EXPECT_TRUE(item.value().is_leaf());
  }
  for (const auto& item : made->named_buffers())
    expect_same(item.value(), expected->named_buffers()[item.key()], item.key());
  auto& net = dynamic_cast<SomeParametersImpl&>(*made);
  EXPECT_TRUE(net.turned.is_alias_of(net.up->weight));
  (net.up->forward(net.table->forward(torch::arange(4))).sum() * net.scale.sum()).backward();
  EXPECT_EQ(net.up->weight.grad().sizes(), net.up->weight.sizes());
  EXPECT_TRUE(net.scale.grad().defined());
}

TEST(TapeTest, ParametersThatAreDrawnAfterwardsGetMemoryAlone) {
  const auto make = keyed([] { return std::make_shared<SomeParametersImpl>(); });
  const auto expected = make();
  const auto made = make_with_memory_for_kept(make, Drawn::kByDefault);
  const auto& found = dynamic_cast<const SomeParametersImpl&>(*made);
  EXPECT_TRUE(found.up->weight.is_cpu() && found.up->bias.is_cpu());
  expect_same(found.scale.detach(), expected->named_parameters()["scale"].detach(), "scale");
  expect_same(found.norm->running_var, expected->named_buffers()["norm.running_var"], "buffer");
}

TEST(TapeTest, OnlyWhatIsLeftTakesMemory) {
  constexpr std::int64_t kWidth = 1 << 10;
  const auto make = [=](int kept) {
    return keyed([=] {
      auto net = std::make_shared<Module>();
      for (int i = 0; i < 20; ++i) {
        auto linear = std::make_shared<torch::nn::LinearImpl>(kWidth, kWidth);
        linear->register_buffer("mask", torch::ones({kWidth, kWidth}).tril());
        if (i == kept) net->register_module("linear", linear);
      }
      return net;
    });
  };
  const std::int64_t matrix = 4 * kWidth * kWidth;
  const auto peak_of = [](const ModuleMaker& of) {
    MemoryLedger ledger(1);
    const MemoryLedger::Scope scope(ledger, 0);
    const auto module = of();
    EXPECT_TRUE(module);
    return ledger.peak_bytes(0);
  };
  EXPECT_GT(peak_of(make(7)), 2 * matrix);
  const std::int64_t left = 2 * matrix + 4 * kWidth, rest = 1 << 20;
  // tril() makes a second matrix.
  EXPECT_LE(peak_of([&] { return make_with_memory_for_kept(make(7), Drawn::kByDefault); }),
            left + matrix);
  EXPECT_LE(peak_of([&] { return make_with_memory_for_kept(make(7), Drawn::kNone); }),
            left + matrix + rest);
  EXPECT_EQ(peak_of([&] { return make_names(make(7)); }), 0);
}

TEST(TapeTest, NamesAreThereWithSizesAndTypes) {
  const auto made = make_names([] { return std::make_shared<SomeParametersImpl>(); });
  EXPECT_EQ(made->named_parameters().keys(), SomeParametersImpl().named_parameters().keys());
  EXPECT_EQ(made->named_parameters()["up.weight"].sizes(), (std::vector<std::int64_t>{32, 8}));
  EXPECT_TRUE(made->named_parameters()["scale"].is_meta());
  EXPECT_FALSE(is_making_without_memory());
  EXPECT_FALSE(torch::empty({4, 4}).is_meta());
}

TEST(TapeTest, AReachIntoMemoryThatIsNotThereIsAnErrorOfTorch) {
  for (const auto& reach : std::vector<std::function<void(at::Tensor&)>>{
           [](at::Tensor& tensor) { tensor.accessor<float, 2>()[0][0] = 1; },
           [](at::Tensor& tensor) { tensor.data_ptr<float>()[0] = 1; },
           [](at::Tensor& tensor) { *static_cast<float*>(tensor.data_ptr()) = 1; }}) {
    const auto make = [&] {
      at::Tensor tensor = torch::zeros({2, 2});
      reach(tensor);
      return std::make_shared<Module>();
    };
    EXPECT_THROW(make_with_memory_for_kept(make, Drawn::kByDefault), c10::Error);
    EXPECT_THROW(make_names(make), c10::Error);
    EXPECT_TRUE(make());
  }
}

// The tape and keyed random numbers use dispatch keys for which LibTorch must have no kernels.
TEST(DispatchKeysTest, LibTorchHasNoKernelsForOurKeys) {
  const auto names_of = [](c10::DispatchKey key) {
    std::set<std::string> names;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      const auto op = c10::Dispatcher::singleton().findOp(name);
      if (op && op->hasKernelForDispatchKey(key)) names.insert(c10::toString(name));
    }
    return names;
  };
  EXPECT_EQ(names_of(c10::DispatchKey::DeferredInit),
            (std::set<std::string>{"aten::empty.memory_format"}));  // the tape's
  // Ours are added at first use: operators that draw, and those that cast weights.
  for (const std::string& name : names_of(kInterceptionKey))
    EXPECT_TRUE(name.starts_with("aten::")) << name;
  EXPECT_LT(names_of(kInterceptionKey).size(), 120U);
}

}  // namespace
}  // namespace sluice::test
