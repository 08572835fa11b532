#include "optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "optim/gradient_norm.h"
#include "sluice/error.h"

namespace sluice {
namespace {

at::Tensor tensor_of(const nlohmann::json& values, const nlohmann::json& shape) {
  const auto flat = values.get<std::vector<float>>();
  return at::tensor(flat).reshape(shape.get<std::vector<std::int64_t>>());
}

std::vector<OptimizedParameter> two_parameters(const nlohmann::json& values,
                                               const nlohmann::json& shapes,
                                               at::ScalarType type = at::kFloat) {
  std::vector<OptimizedParameter> parameters;
  for (std::size_t i = 0; i < 2; ++i) {
    parameters.push_back({i == 0 ? "a.weight" : "a.bias",
                          tensor_of(values[i], shapes[i]).to(type).requires_grad_()});
  }
  return parameters;
}

OptimizerOptions options_of(const nlohmann::json& test) {
  OptimizerOptions options;
  options.kind = test["optimizer"] == "AdamW" ? OptimizerKind::kAdamW : OptimizerKind::kSgd;
  options.lr = test["options"]["lr"];
  options.weight_decay = test["options"]["weight_decay"];
  options.betas = test["options"].value("betas", options.betas);
  options.eps = test["options"].value("eps", options.eps);
  options.no_decay = {"*.bias"};
  return options;
}

constexpr OptimizerKind kAllKinds[] = {OptimizerKind::kAdamW, OptimizerKind::kSgd,
                                       OptimizerKind::kSgdMomentum};

OptimizerOptions options_of_kind(OptimizerKind kind) {
  OptimizerOptions options;
  options.kind = kind == OptimizerKind::kAdamW ? kind : OptimizerKind::kSgd;
  if (kind == OptimizerKind::kSgdMomentum) options.momentum = 0.9;
  return options;
}

nlohmann::json golden() {
  std::ifstream file(SLUICE_TEST_DATA "/optim/optimizer_golden.json");
  return nlohmann::json::parse(file);
}

// Runs a golden case with parameters of `type` and returns the largest difference to torch. The
// golden gradients are unclipped.
double largest_difference(const nlohmann::json& test, at::ScalarType type) {
  const OptimizerOptions options = options_of(test);
  auto parameters = two_parameters(test["initial"], test["shapes"], type);
  const auto optimizer = make_optimizer(options, parameters);
  double largest = 0.0;
  for (const auto& step : test["steps"]) {
    for (std::size_t i = 0; i < 2; ++i) {
      parameters[i].value.mutable_grad() =
          tensor_of(step["gradients"][i], test["shapes"][i]).to(type);
    }
    optimizer->step(options.lr, 1.0 / clip_coefficient(step["norm"], test["max_norm"]));
    for (std::size_t i = 0; i < 2; ++i) {
      const at::Tensor expected = tensor_of(step["values"][i], test["shapes"][i]);
      largest =
          std::max(largest, (parameters[i].value.detach() - expected).abs().max().item<double>());
    }
  }
  return largest;
}

TEST(OptimizerTest, UpdatesAsTorchOptimDoes) {
  const nlohmann::json file = golden();
  ASSERT_FALSE(file.at("cases").empty());
  for (const auto& test : file["cases"]) {
    SCOPED_TRACE(test["optimizer"].get<std::string>() + " " + test["options"].dump());
    EXPECT_LT(largest_difference(test, at::kFloat), 2e-6);
    EXPECT_LT(largest_difference(test, at::kDouble), 2e-6);
  }
}

TEST(OptimizerTest, SgdWithMomentumUpdatesAsTorchOptimDoes) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    OptimizerOptions options = options_of_kind(OptimizerKind::kSgdMomentum);
    options.weight_decay = 0.1;
    const at::Tensor start = at::linspace(-1, 1, 1001).to(type);
    std::vector<OptimizedParameter> own = {{"w", start.clone().requires_grad_()}};
    at::Tensor theirs = start.clone().requires_grad_();
    const auto optimizer = make_optimizer(options, own);
    torch::optim::SGD reference({theirs},
                                torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.1));
    for (int step = 1; step <= 4; ++step) {
      const at::Tensor gradient = at::sin(start * step);
      own[0].value.mutable_grad() = gradient.clone();
      theirs.mutable_grad() = gradient.clone();
      optimizer->step(0.05);
      reference.step();
    }
    EXPECT_LT((own[0].value - theirs).abs().max().item<double>(), 1e-6);
    ASSERT_EQ(optimizer->state().size(), 1u);
    EXPECT_EQ(optimizer->state()[0].first, "momentum_buffer/w");
    EXPECT_EQ(optimizer->state_bytes(), 1001 * start.element_size());
  }
}

TEST(OptimizerTest, HalfPrecisionParametersAreUpdatedInFloat32FromFloat32Gradients) {
  for (const OptimizerKind kind : kAllKinds) {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      const OptimizerOptions options = options_of_kind(kind);
      const at::Tensor start = at::linspace(-1, 1, 64).to(type);
      const at::Tensor gradient = at::linspace(0.3, -0.2, 64);
      std::vector<OptimizedParameter> half = {{"w", start.clone().requires_grad_()}};
      std::vector<OptimizedParameter> full = {{"w", start.to(at::kFloat).requires_grad_()}};
      half[0].value.mutable_grad() = gradient.clone();
      full[0].value.mutable_grad() = gradient.clone();
      const auto optimizer = make_optimizer(options, half);
      optimizer->step(0.1, 2.0);
      make_optimizer(options, full)->step(0.1, 2.0);
      for (const auto& [name, state] : optimizer->state())
        EXPECT_EQ(state.scalar_type(), at::kFloat) << name;
      EXPECT_EQ(half[0].value.scalar_type(), type);
      // A step computes in float32 and rounds once, so the result is at most one unit in the last
      // place away.
      const at::Tensor apart = half[0].value.detach().to(at::kFloat) - full[0].value.detach();
      EXPECT_LT(apart.abs().max().item<double>(), type == at::kHalf ? 0.0006 : 0.005)
          << static_cast<int>(kind);
    }
  }
}

TEST(OptimizerTest, AnUpdateDoesNotDependOnTheOtherParametersOrAlignmentOrThreads) {
  const int threads_before = at::get_num_threads();
  for (const OptimizerKind kind : kAllKinds) {
    OptimizerOptions options = options_of_kind(kind);
    const std::int64_t size = 70'001;  // not a multiple of any vector length
    const at::Tensor value = at::sin(at::arange(size, at::kFloat));
    const at::Tensor gradient = at::cos(at::arange(size, at::kFloat) * 3);
    auto updated = [&](std::int64_t offset, int threads, int others) {
      at::set_num_threads(threads);
      auto placed = [&](const at::Tensor& from) {
        return at::empty({size + 64}).narrow(0, offset, size).copy_(from);
      };
      std::vector<OptimizedParameter> parameters;
      for (int i = 0; i < others; ++i) {
        parameters.push_back({"other" + std::to_string(i), at::ones({33}).requires_grad_()});
        parameters.back().value.mutable_grad() = at::ones({33});
      }
      parameters.push_back({"w", placed(value).requires_grad_()});
      parameters.back().value.mutable_grad() = placed(gradient);
      const auto optimizer = make_optimizer(options, parameters);
      for (int step = 0; step < 3; ++step) optimizer->step(0.01, 1.5);
      return parameters.back().value.detach();
    };
    const at::Tensor alone = updated(0, 1, 0);
    EXPECT_TRUE(at::equal(alone, updated(0, 1, 3))) << static_cast<int>(kind);
    EXPECT_TRUE(at::equal(alone, updated(3, 1, 0))) << static_cast<int>(kind);
    EXPECT_TRUE(at::equal(alone, updated(16, 2, 1))) << static_cast<int>(kind);
  }
  at::set_num_threads(threads_before);
}

std::vector<at::Tensor> update_in_parts(OptimizerKind kind, at::ScalarType type, std::int64_t numel,
                                        const std::vector<std::int64_t>& ends, int threads) {
  at::set_num_threads(threads);
  OptimizerOptions options = options_of_kind(kind);
  options.weight_decay = 0.1;
  const at::Tensor whole = at::sin(at::arange(numel, at::kFloat) * 0.37).to(type);
  const at::Tensor gradient = at::cos(at::arange(numel, at::kFloat) * 1.3);
  std::vector<OptimizedParameter> parameters;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    parameters.push_back({"w" + std::to_string(begin), whole.narrow(0, begin, end - begin)});
    parameters.back().value.mutable_grad() = at::isReducedFloatingType(type)
                                                 ? gradient.narrow(0, begin, end - begin)
                                                 : gradient.narrow(0, begin, end - begin).to(type);
    begin = end;
  }
  const auto optimizer = make_optimizer(options, parameters);
  for (int step = 0; step < 3; ++step) optimizer->step(1e-2, 1.5);
  std::vector<at::Tensor> result{whole};
  std::map<std::string, std::vector<at::Tensor>> moments;
  for (const auto& [name, tensor] : optimizer->state()) {
    if (tensor.dim() == 1) moments[name.substr(0, name.find('/'))].push_back(tensor);
  }
  for (const auto& [name, parts] : moments) result.push_back(at::cat(parts));
  at::set_num_threads(1);
  return result;
}

TEST(OptimizerTest, AnUpdateOfBlocksHasTheBitsOfAnUpdateOfTheWholeWithAnyNumberOfThreads) {
  const std::int64_t numel = 7 * kGradientBlock + 1237;
  for (const OptimizerKind kind : kAllKinds) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      const std::vector<at::Tensor> whole = update_in_parts(kind, type, numel, {numel}, 1);
      for (const int threads : {1, 3}) {
        for (const std::vector<std::int64_t>& ends :
             {std::vector<std::int64_t>{numel},
              {3 * kGradientBlock, numel},
              {kGradientBlock, 2 * kGradientBlock, 7 * kGradientBlock, numel}}) {
          const std::vector<at::Tensor> parts = update_in_parts(kind, type, numel, ends, threads);
          ASSERT_EQ(parts.size(), whole.size());
          for (std::size_t i = 0; i < whole.size(); ++i) {
            EXPECT_TRUE(at::equal(parts[i], whole[i]))
                << at::toString(type) << ", " << threads << " threads, " << ends.size() << " parts";
          }
        }
      }
    }
  }
}

TEST(OptimizerTest, AGradientOfAnotherMemoryLayoutIsTakenByIndex) {
  for (const OptimizerKind kind : kAllKinds) {
    OptimizerOptions options = options_of_kind(kind);
    const at::Tensor gradient = at::arange(12, at::kFloat).reshape({3, 4});
    std::vector<OptimizedParameter> plain = {{"w", at::ones({3, 4}).requires_grad_()}};
    std::vector<OptimizedParameter> turned = {{"w", at::ones({3, 4}).requires_grad_()}};
    plain[0].value.mutable_grad() = gradient.clone();
    turned[0].value.mutable_grad() = gradient.t().contiguous().t();
    make_optimizer(options, plain)->step(0.1);
    make_optimizer(options, turned)->step(0.1);
    EXPECT_TRUE(at::equal(plain[0].value, turned[0].value)) << static_cast<int>(kind);
  }
}

TEST(OptimizerTest, AParameterWithoutGradientIsLeftAlone) {
  std::vector<OptimizedParameter> parameters = {{"w", at::ones({4}).requires_grad_()},
                                                {"frozen", at::ones({4}).requires_grad_()}};
  parameters[0].value.mutable_grad() = at::ones({4});
  const auto optimizer = make_optimizer({}, parameters);
  optimizer->step(0.1);
  EXPECT_FALSE(at::equal(parameters[0].value, at::ones({4})));
  EXPECT_TRUE(at::equal(parameters[1].value, at::ones({4})));
}

TEST(OptimizerTest, TheStateOfAllParametersOfATypeLiesSideBySide) {
  std::vector<OptimizedParameter> parameters = {
      {"a", at::ones({3, 5}).requires_grad_()},
      {"b", at::ones({4, 6}).t().requires_grad_()},
      {"c", at::ones({7}, at::kBFloat16).requires_grad_()},
      {"d", at::ones({2}, at::kDouble).requires_grad_()},
      {"none", at::ones({0}).requires_grad_()}};
  const auto optimizer = make_optimizer({}, parameters);
  std::map<std::string, at::Tensor> state;
  for (const auto& [name, tensor] : optimizer->state()) state[name] = tensor;
  for (const OptimizedParameter& parameter : parameters) {
    for (const char* kind : {"exp_avg/", "exp_avg_sq/"}) {
      const at::Tensor& tensor = state.at(kind + parameter.name);
      EXPECT_EQ(tensor.sizes(), parameter.value.sizes());
      EXPECT_EQ(tensor.strides(), parameter.value.strides());
      EXPECT_FALSE(tensor.is_view());
      EXPECT_EQ(tensor.storage_offset() * static_cast<std::int64_t>(tensor.element_size()) % 64, 0);
      EXPECT_TRUE(at::equal(tensor, at::zeros_like(tensor)));
    }
  }
  const auto memory_of = [&](const char* name) { return state.at(name).storage().data(); };
  EXPECT_EQ(memory_of("exp_avg/a"), memory_of("exp_avg/b"));
  EXPECT_EQ(memory_of("exp_avg/a"), memory_of("exp_avg/c"));
  EXPECT_NE(memory_of("exp_avg/a"), memory_of("exp_avg/d"));
  EXPECT_NE(memory_of("exp_avg/a"), memory_of("exp_avg_sq/a"));
  state.at("exp_avg/a").fill_(1);
  state.at("exp_avg/b").fill_(2);
  EXPECT_TRUE(at::equal(state.at("exp_avg/a"), at::ones({3, 5})));
  EXPECT_TRUE(at::equal(state.at("exp_avg/c"), at::zeros({7})));
}

TEST(OptimizerTest, StateIsNamedAfterTheParameter) {
  const auto adamw = make_optimizer({}, {{"a.weight", at::ones({2, 3}).requires_grad_()}});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : adamw->state()) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"exp_avg/a.weight", "exp_avg_sq/a.weight", "step/a.weight"}));
  EXPECT_EQ(adamw->state_bytes(), 2 * 6 * 4 + 4);
}

}  // namespace
}  // namespace sluice
