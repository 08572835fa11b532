// What blocks with experts, of Phi-3 and of GPT-NeoX hold while they run, against what the plan
// says: at sizes at which numbers of every expert and routing tables no longer matter.
#include <gtest/gtest.h>

#include "model/support.h"
#include "sluice/parts/describe.h"

namespace sluice {
namespace {

constexpr std::int64_t kLength = 96;

ModelSpec spec_of(const std::string& family, bool balanced = false) {
  return parse_model_spec(R"({"model_type": ")" + family + R"(", "vocab_size": 64,
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 96, "pad_token_id": null, "output_router_logits": )" +
                              (balanced ? "true}" : "false}"),
                          "config.json");
}

ModelSpec measured(const ModelSpec& spec) {
  at::set_num_threads(1);
  const TensorMeta ids{{2, kLength}, at::kLong}, absent{{}, at::ScalarType::Undefined};
  return describe(
      make_layers(spec),
      {{"input_ids", ids}, {"labels", ids}, {"attention_mask", absent}, {"position_ids", absent}});
}

class DescribeExpertsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(DescribeExpertsTest, WhatABlockHoldsIsNearWhatThePlanSays) {
  const ModelSpec spec = spec_of(GetParam()), found = measured(spec);
  const MicrobatchShape shape{2, kLength};
  const LayerCost &cost = found.layers[2].cost, &expected = spec.layers[2].cost;
  EXPECT_EQ(cost.forward_flops.at(shape), expected.forward_flops.at(shape));
  EXPECT_EQ(cost.after_forward.at(shape), expected.after_forward.at(shape));
  const auto expect_near = [&](const char* what, ShapePolynomial LayerCost::*part, double part_of) {
    const double wanted = (expected.*part).at(shape);
    EXPECT_NEAR((cost.*part).at(shape), wanted, part_of * wanted) << what;
  };
  expect_near("after_input", &LayerCost::after_input, 0.05);
  expect_near("on_entry", &LayerCost::on_entry, 0.2);
  expect_near("in_forward", &LayerCost::in_forward, 0.15);
}

INSTANTIATE_TEST_SUITE_P(Families, DescribeExpertsTest,
                         ::testing::Values("mixtral", "qwen3_moe", "olmoe", "phi3", "gpt_neox"),
                         [](const auto& test) { return test.param; });

TEST(DescribeBalanceTest, TheLoadBalancingLossKeepsTheProbabilitiesOnceMore) {
  const ModelSpec spec = spec_of("mixtral", true), found = measured(spec);
  const MicrobatchShape shape{2, kLength};
  EXPECT_EQ(found.layers[2].cost.after_forward.at(shape),
            spec.layers[2].cost.after_forward.at(shape));
  EXPECT_EQ(spec.layers[2].cost.after_forward.at(shape) -
                spec_of("mixtral").layers[2].cost.after_forward.at(shape),
            static_cast<double>(8 * 4 * shape.tokens() + 8 * 4));
}

}  // namespace
}  // namespace sluice
