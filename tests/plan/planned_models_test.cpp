// Families without modules, and lists of layers: planned, and refused where they would train.
#include <gtest/gtest.h>

#include <cmath>

#include "family/family_kind.h"
#include "sluice/error.h"
#include "sluice/plan.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::planned_models_test {
namespace {

std::string path_of(const std::string& name) {
  return std::string(SLUICE_TEST_DATA) + "/reference/planned/" + name + ".json";
}

ModelSpec model_of(const std::string& name) {
  return detail::read_planned_spec(path_of(name), {.parameters = "bfloat16"});
}

// The makers of these models publish the numbers of parameters, here in billions.
TEST(PlannedModelsTest, CountsThePublishedParameters) {
  const auto billions = [](const std::string& name, bool with_mtp) {
    double sum = 0;
    for (const LayerInfo& layer : model_of(name).layers)
      if (with_mtp || layer.class_name != "mtp") sum += static_cast<double>(layer.num_parameters());
    return sum / 1e9;
  };
  EXPECT_NEAR(billions("deepseek_v3", false), 671.03, 0.01);
  EXPECT_NEAR(billions("kimi_k2", false), 1026, 2);
  EXPECT_NEAR(billions("gpt_oss_120b", false), 116.83, 0.01);
  EXPECT_NEAR(billions("glm4_5_air", false), 106.85, 0.1);
  EXPECT_NEAR(billions("llama4_scout", false), 107.77, 0.05);
  EXPECT_NEAR(billions("qwen3_next", false), 79.67, 0.01);
}

// Operations of a forward for one token, without attention scores: 2 for each active parameter.
TEST(PlannedModelsTest, CountsTheOperationsOfActiveParameters) {
  const auto active = [](const std::string& name) {
    double flops = 0;
    for (const LayerInfo& layer : model_of(name).layers)
      if (layer.class_name != "mtp") flops += layer.cost.forward_flops.per_token;
    return flops / 2e9;
  };
  EXPECT_NEAR(active("deepseek_v3"), 37, 1);
  EXPECT_NEAR(active("kimi_k2"), 32, 1);
  EXPECT_NEAR(active("llama4_scout"), 17, 3);  // with windows of 8192 tokens
  EXPECT_NEAR(active("gpt_oss_120b"), 5.1, 0.6);
}

TEST(PlannedModelsTest, PlansALargeMixture) {
  PipelineOptions options;
  options.num_ranks = 16;
  options.num_microbatches = 32;
  options.seq_len = 4096;
  options.balance = Balance::kCost;
  const Plan plan = plan_pipeline(model_of("deepseek_v3"), options);
  EXPECT_TRUE(plan.report.ok());
  EXPECT_EQ(plan.time_unit, "GFLOP");
  int blocks = 0;
  for (const StageContent& stage : plan.partition.stages) blocks += stage.num_layers;
  EXPECT_EQ(blocks, 61);
  EXPECT_EQ(plan.partition.stages.back().modules.back(), "lm_head");
  EXPECT_EQ(plan.ranks[3].memory.parameter_bytes, 2 * plan.ranks[3].memory.num_parameters);
  EXPECT_GT(plan.ranks[0].memory.activation_bytes, plan.ranks[15].memory.activation_bytes);
}

TEST(PlannedModelsTest, PlansAListOfLayers) {
  test::TempDirectory folder;
  const std::string path = folder / "model.json";
  test::write_file(path, R"({"hidden_size": 8, "name": "mine", "layers": [
      {"name": "embed_tokens", "params": 100, "kept_bytes": 4},
      {"name": "layers.*", "count": 4, "flops": 1e9, "params": 10, "kept_bytes": 16},
      {"name": "lm_head", "flops": 2e9, "params": 20}]})");
  const ModelSpec model = detail::read_planned_spec(path, {});
  EXPECT_EQ(model.family, "mine");
  EXPECT_EQ(model.num_parameters(), 160);
  EXPECT_EQ(model.layers[3].name, "layers.2");
  PipelineOptions options;
  options.num_ranks = 2;
  options.num_microbatches = 2;
  options.seq_len = 10;
  options.balance = Balance::kCost;
  const Plan plan = plan_pipeline(model, options);
  EXPECT_EQ(plan.partition.stages[0].num_layers, 3);
  EXPECT_DOUBLE_EQ(plan.simulation.ranks[1].busy, 2 * 3 * 10 * 3.0);  // GFLOP
  EXPECT_EQ(plan.ranks[0].memory.parameter_bytes, 4 * 130);
  EXPECT_EQ(plan.ranks[0].memory.activation_bytes, 2 * 10 * (4 + 3 * 16));
  EXPECT_EQ(plan.costs.message_bytes[0], 10 * 8 * 4);
}

TEST(PlannedModelsTest, RefusesToTrainByName) {
  const Error error = test::error_of([] { read_model_spec(path_of("deepseek_v3")); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(error.fact().find("'deepseek_v3' can be planned, but not trained"), std::string::npos)
      << error.what();
  EXPECT_NE(test::message_of([] { read_model_spec(path_of("llama4_scout")); }).find("'llama4'"),
            std::string::npos);
}

TEST(PlannedModelsTest, NamesFileAndKeyOfEveryFault) {
  test::TempDirectory folder;
  const std::string path = folder / "model.json";
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {R"({"layers": []})", "'hidden_size' is missing"},
           {R"({"hidden_size": 8, "layers": []})", "'layers' is not a list"},
           {R"({"hidden_size": 0, "layers": [{}]})", "'hidden_size' is not a number from 1"},
           {R"({"hidden_size": 1.5, "layers": [{}]})", "'hidden_size' is not a whole number"},
           {R"({"hidden_size": 8, "layer": 1, "layers": [{}]})", "'layer' is not a key"},
           {R"({"hidden_size": 8, "layers": [3]})", "'layers[0]' is not an object"},
           {R"({"hidden_size": 8, "layers": [{}]})", "'layers[0].name' is missing"},
           {R"({"hidden_size": 8, "layers": [{"name": "a", "flop": 1}]})",
            "'layers[0].flop' is not a key"},
           {R"({"hidden_size": 8, "layers": [{"name": "a", "flops": "1"}]})",
            "'layers[0].flops' is not a number from 0"},
           {R"({"hidden_size": 8, "layers": [{"name": "a", "count": 3}]})",
            "'layers[0].count' needs a '*' in the name 'a'"},
           {R"({"hidden_size": 8, "layers": [{"name": "a"}, {"name": "a"}]})",
            "'layers' has 'a' twice"},
           {R"({"hidden_size": 8, "layers": [{"name": "lm_head"}]})", "'layers' has no layer"},
           {R"({"model_type": "gpt_oss"})", "hidden_size"},
           {R"({"model_type": "glm4_moe", "hidden_size": 8, "num_hidden_layers": 2,
                "num_attention_heads": 2, "n_routed_experts": 2, "num_experts_per_tok": 3})",
            "a token goes to 3 experts, but there are only 2"}}) {
    test::write_file(path, text);
    const Error error = test::error_of([&] { detail::read_planned_spec(path, {}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << text;
    EXPECT_TRUE(std::string(error.what()).find(what) != std::string::npos) << error.what();
    EXPECT_NE(error.where().find(path), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sluice::planned_models_test
