#include "model/experts.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <gtest/gtest.h>

#include <map>

#include "base/name_pattern.h"
#include "io/safetensors.h"
#include "model/support.h"

namespace sluice {
namespace {

constexpr std::int64_t kHidden = 6;

detail::ExpertsConfig config_of(std::int64_t num_experts, std::int64_t top_k) {
  detail::ExpertsConfig config;
  config.num_experts = num_experts;
  config.top_k = top_k;
  config.intermediate_size = 5;
  return config;
}

std::shared_ptr<Experts> make_experts(const detail::ExpertsConfig& config,
                                      at::ScalarType dtype = at::kDouble) {
  auto experts = std::make_shared<Experts>(config, kHidden, LayerOptions{.dtype = dtype});
  at::manual_seed(1);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : experts->parameters()) parameter.normal_(0, 0.5);
  return experts;
}

// The router chooses in float32, or in float64 if its input is float64.
struct Choice {
  at::Tensor weights_TK, experts_TK;
};
Choice choose(Experts& experts, const detail::ExpertsConfig& config, const at::Tensor& x_TD) {
  const at::Tensor logits_TE = x_TD.matmul(experts.named_parameters()["gate.weight"].t());
  auto [weights, indices] = at::softmax(logits_TE, -1, wide_type(logits_TE)).topk(config.top_k);
  if (config.normalizes) weights = weights / weights.sum(-1, true);
  return {weights.to(x_TD.scalar_type()), indices};
}

at::Tensor balance(const at::Tensor& logits_TE, std::int64_t top_k,
                   const at::Tensor& mask_BL = {}) {
  return load_balancing_loss({logits_TE}, top_k, logits_TE.size(0), mask_BL);
}

at::Tensor by_token(Experts& experts, const detail::ExpertsConfig& config,
                    const at::Tensor& x_BLD) {
  auto weights = experts.named_parameters();
  const at::Tensor x_TD = x_BLD.flatten(0, 1);
  const Choice choice = choose(experts, config, x_TD);
  std::vector<at::Tensor> rows;
  for (std::int64_t t = 0; t < x_TD.size(0); ++t) {
    at::Tensor sum = at::zeros({kHidden}, x_TD.options());
    for (std::int64_t k = 0; k < config.top_k; ++k) {
      const std::string expert =
          "experts." + std::to_string(choice.experts_TK[t][k].item<std::int64_t>()) + ".";
      const at::Tensor gate = weights[expert + config.gate + ".weight"].mv(x_TD[t]);
      const at::Tensor up = weights[expert + config.up + ".weight"].mv(x_TD[t]);
      const at::Tensor inner = gate * at::sigmoid(gate) * up;
      sum = sum + choice.weights_TK[t][k] * weights[expert + config.down + ".weight"].mv(inner);
    }
    rows.push_back(sum);
  }
  return at::stack(rows).view_as(x_BLD);
}

TEST(ExpertsTest, EveryTokenGetsTheWeightedSumOfItsExperts) {
  for (const bool normalizes : {false, true}) {
    for (const std::int64_t top_k : {1, 2, 4}) {
      detail::ExpertsConfig config = config_of(4, top_k);
      config.normalizes = normalizes;
      const auto experts = make_experts(config);
      const at::Tensor x_BLD = at::randn({2, 7, kHidden}, at::kDouble).requires_grad_();
      const at::Tensor root = at::randn({2, 7, kHidden}, at::kDouble);

      const Experts::Output output = experts->forward(x_BLD, {});
      EXPECT_TRUE(output.written.empty());
      std::vector<at::Tensor> inputs = experts->parameters();
      inputs.push_back(x_BLD);
      const auto found = torch::autograd::grad({output.hidden_BLD}, inputs, {root});
      const at::Tensor expected = by_token(*experts, config, x_BLD);
      const auto gradients = torch::autograd::grad({expected}, inputs, {root}, {}, false, true);
      EXPECT_TRUE(at::allclose(output.hidden_BLD, expected, 1e-9, 1e-12)) << top_k;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const at::Tensor wanted = gradients[i].defined() ? gradients[i] : at::zeros_like(inputs[i]);
        // Probabilities and their gradients pass through float32.
        EXPECT_TRUE(at::allclose(found[i], wanted, 1e-5, 1e-6)) << top_k << " " << i;
      }
    }
  }
}

TEST(ExpertsTest, NamesAreThoseOfTheConfiguration) {
  detail::ExpertsConfig config = config_of(2, 1);
  config.gate = "w1";
  config.up = "w3";
  config.down = "w2";
  std::vector<std::string> names;
  for (const auto& parameter : make_experts(config)->named_parameters())
    names.push_back(parameter.key());
  EXPECT_EQ(names,
            (std::vector<std::string>{"gate.weight", "experts.0.w1.weight", "experts.0.w3.weight",
                                      "experts.0.w2.weight", "experts.1.w1.weight",
                                      "experts.1.w3.weight", "experts.1.w2.weight"}));
}

TEST(ExpertsTest, AnExpertWithoutTokensHasGradientsOfZeros) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const detail::ExpertsConfig config = config_of(5, 1);
    const auto experts = make_experts(config, dtype);
    const at::Tensor x_BLD = at::ones({1, 3, kHidden}, dtype);
    experts->forward(x_BLD, {}).hidden_BLD.sum().backward();
    int idle = 0;
    for (const auto& parameter : experts->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      if (parameter.key() != "gate.weight" &&
          at::equal(parameter.value().grad(), at::zeros_like(parameter.value())))
        ++idle;
    }
    EXPECT_EQ(idle, 4 * 3);
  }
}

TEST(ExpertsTest, WeightsOfAHalfTypeAreRoundedUnlessTheyStayWide) {
  detail::ExpertsConfig config = config_of(4, 2);
  const auto narrow = make_experts(config, at::kBFloat16);
  config.wide_weights = true;
  const auto wide = make_experts(config, at::kBFloat16);
  const at::Tensor x_BLD = at::randn({1, 9, kHidden}, at::kBFloat16);
  const at::Tensor a = narrow->forward(x_BLD, {}).hidden_BLD,
                   b = wide->forward(x_BLD, {}).hidden_BLD;
  EXPECT_EQ(a.scalar_type(), at::kBFloat16);
  EXPECT_EQ(b.scalar_type(), at::kBFloat16);
  EXPECT_FALSE(at::equal(a, b));
  EXPECT_TRUE(at::allclose(a, b, 3e-2, 3e-2));
}

TEST(LoadBalancingLossTest, IsTopKWhenAllExpertsAreAlike) {
  const at::Tensor logits_TE = at::zeros({8, 4});
  EXPECT_NEAR(balance(logits_TE, 1).item<double>(), 1.0, 1e-6);
  EXPECT_NEAR(balance(logits_TE, 3).item<double>(), 3.0, 1e-6);
}

TEST(LoadBalancingLossTest, IsTheSumOverExpertsOfShareTimesProbability) {
  // Tokens 0 and 1 choose expert 0, token 2 chooses expert 2.
  const at::Tensor logits_TE = at::tensor({2.0F, 0.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 3.0F})
                                   .view({3, 3})
                                   .requires_grad_();
  const at::Tensor mean_E = at::softmax(logits_TE, -1).mean(0);
  const at::Tensor expected = 3 * (mean_E[0] * 2 / 3 + mean_E[2] / 3);
  const at::Tensor found = balance(logits_TE, 1);
  EXPECT_NEAR(found.item<double>(), expected.item<double>(), 1e-6);
  const at::Tensor gradient = torch::autograd::grad({found}, {logits_TE})[0];
  EXPECT_TRUE(
      at::allclose(gradient, torch::autograd::grad({expected}, {logits_TE})[0], 1e-5, 1e-7));
}

TEST(LoadBalancingLossTest, LeavesOutTokensWithMaskZero) {
  at::manual_seed(3);
  const at::Tensor logits_TE = at::randn({6, 4});
  const at::Tensor mask_BL = at::tensor({0, 1, 1, 1, 1, 0}, at::kLong).view({2, 3});
  const at::Tensor kept_TE = logits_TE.narrow(0, 1, 4);
  EXPECT_NEAR(balance(logits_TE, 2, mask_BL).item<double>(), balance(kept_TE, 2).item<double>(),
              1e-6);
  EXPECT_NEAR(balance(logits_TE, 2, at::ones_like(mask_BL)).item<double>(),
              balance(logits_TE, 2).item<double>(), 1e-6);
}

TEST(LoadBalancingLossTest, IsZeroWithZeroGradientsWhenNoTokenCounts) {
  const at::Tensor logits_TE = at::randn({6, 4}).requires_grad_();
  const at::Tensor loss = balance(logits_TE, 2, at::zeros({2, 3}, at::kLong));
  EXPECT_EQ(loss.item<double>(), 0.0);
  const at::Tensor gradient = torch::autograd::grad({loss}, {logits_TE})[0];
  EXPECT_TRUE(at::equal(gradient, at::zeros_like(gradient)));
}

// Compares the token loss and the mean load-balancing loss with transformers. A model with one
// expert layer is compared with transformers' own loss, other models with its formula applied per
// layer.
class BalancedModelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(BalancedModelTest, LossesAndGradientNormsAgree) {
  const std::string directory = "reference/models_extra/" + GetParam();
  const nlohmann::json expected = testing::read_json(directory + "/expected.json");
  const Model model = causal_lm(read_model_spec(std::string(SLUICE_TEST_DATA) + "/" + directory));
  std::vector<std::string> outputs = model.outputs;
  for (const LayerSpec& layer : model.layers)
    outputs.insert(outputs.end(), layer.writes.begin() + 1, layer.writes.end());
  ASSERT_EQ(outputs.size(), 1 + expected["balance"].size());
  Chunk chunk(model.layers, 0, {}, outputs);
  {
    const at::NoGradGuard no_grad;
    const SafetensorsReader file(std::string(SLUICE_TEST_DATA) + "/" + directory +
                                 "/model.safetensors");
    for (ParameterInfo& parameter : chunk.parameters())
      file.read_into(parameter.tied_to.empty() ? parameter.name : parameter.tied_to,
                     parameter.tensor);
  }

  Values batch{{"position_ids", {}}};
  for (const char* name : {"input_ids", "labels", "attention_mask"})
    batch.set(name, expected.contains(name) ? testing::int_tensor(expected[name]) : at::Tensor());
  const Values found = chunk.forward({}, batch, 0, 1, 0);
  const LossValue tokens = causal_lm_loss(found, batch);
  at::Tensor loss = tokens.loss / tokens.count;
  EXPECT_NEAR(loss.item<double>(), expected["loss"].get<double>(), testing::kTolerance);
  ASSERT_EQ(model.auxiliary.size(), 1u);
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    EXPECT_TRUE(matches_pattern(model.auxiliary[0].value, outputs[i]));
    EXPECT_NEAR(found.get(outputs[i]).item<double>(), expected["balance"][i - 1].get<double>(),
                10 * testing::kTolerance);
    loss = loss + found.get(outputs[i]) * model.auxiliary[0].scale;
  }
  loss.backward();
  std::map<std::string, at::Tensor> gradients;
  for (const ParameterInfo& parameter : chunk.parameters()) {
    at::Tensor& sum = gradients[parameter.tied_to.empty() ? parameter.name : parameter.tied_to];
    sum = sum.defined() ? sum + parameter.tensor.grad() : parameter.tensor.grad();
  }
  EXPECT_EQ(gradients.size(), expected["grad_norms"].size());
  for (const auto& [name, norm] : expected["grad_norms"].items()) {
    ASSERT_TRUE(gradients.count(name)) << name;
    EXPECT_NEAR(gradients.at(name).to(at::kDouble).norm().item<double>(), norm.get<double>(),
                testing::kGradientTolerance * norm.get<double>())
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BalancedModelTest,
                         ::testing::Values("mixtral_balance", "qwen3_moe_some", "olmoe_balance"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace sluice
