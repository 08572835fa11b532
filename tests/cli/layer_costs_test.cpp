// Costs of layers measured elsewhere, and models that are planned but not trained.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/run_program.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using testing::ProgramResult;
using testing::run_sluice;
using Words = std::vector<std::string>;

class LayerCostsCommandTest : public ::testing::Test {
 protected:
  LayerCostsCommandTest() {
    test::write_file(costs(), R"({"unit": "ms", "layers": [
        {"name": "model.embed_tokens", "F": 0.5, "W": 0.5},
        {"name": "model.layers.*", "count": 4, "F": 10, "I": 10, "W": 10},
        {"name": "model.norm", "F": 0, "I": 0}, {"name": "lm_head", "F": 20, "I": 20, "W": 20}]})");
    write_config("/reference/models/llama_untied/config.json");
  }
  void write_config(const std::string& model) {
    test::write_file(config(), "[model]\nconfig = \"" + std::string(SLUICE_TEST_DATA) + model +
                                   "\"\n[training]\nlocal_batch_size = 4\nseq_len = 16\n"
                                   "[data]\ntokenizer = \"bytes\"\n"
                                   "[parallelism]\npipeline_parallel_degree = 2\n");
  }
  Json object_of(const Words& words) {
    const ProgramResult result = run_sluice(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? Json::parse(result.out) : Json();
  }
  std::string config() const { return folder_ / "run.toml"; }
  std::string costs() const { return folder_ / "costs.json"; }
  test::TempDirectory folder_;
};

std::vector<int> layers_of(const Json& stages) {
  std::vector<int> layers;
  for (const Json& stage : stages) layers.push_back(stage.at("num_layers"));
  return layers;
}

TEST_F(LayerCostsCommandTest, SplitBalancesTheCosts) {
  const Json json =
      object_of({"split", "--layers", "4", "--pp", "2", "--layer-costs", costs(), "--json"});
  EXPECT_EQ(layers_of(json.at("stages")), (std::vector{3, 1}));
  EXPECT_NEAR(json.at("rank_seconds").at(0), 0.091, 1e-9);
  EXPECT_NEAR(json.at("rank_seconds").at(1), 0.090, 1e-9);
  const ProgramResult text = run_sluice(
      {"split", "--layers", "4", "--pp", "2", "--layer-costs", costs(), "--layout", "Ett|ttL"});
  EXPECT_NE(text.out.find("a microbatch takes the slowest rank (1) 120.000 ms"), std::string::npos)
      << text.out << text.err;
  EXPECT_NE(text.out.find("were measured elsewhere"), std::string::npos) << text.out;
}

TEST_F(LayerCostsCommandTest, PlanPredictsSecondsAndAutoChooses) {
  const Json even = object_of({"plan", config(), "--layer-costs", costs(), "--json"});
  EXPECT_EQ(even.at("prediction").at("unit"), "s");
  EXPECT_EQ(layers_of(even.at("split").at("stages")), (std::vector{2, 2}));
  EXPECT_NE(even.at("notes").dump().find("splits by these costs"), std::string::npos);
  const Json measured = object_of({"plan", config(), "--parallelism.costs", costs(),
                                   "--parallelism.partition", "measured", "--json"});
  EXPECT_EQ(layers_of(measured.at("split").at("stages")), (std::vector{3, 1}));
  EXPECT_LT(measured.at("prediction").at("step"), even.at("prediction").at("step"));
  const Json chosen = object_of({"plan", config(), "--layer-costs", costs(), "--json",
                                 "--parallelism.pipeline_parallel_schedule", "auto"});
  EXPECT_LE(chosen.at("prediction").at("step"), measured.at("prediction").at("step"));
}

TEST_F(LayerCostsCommandTest, SearchTakesTheFileAsTheModel) {
  const Json json =
      object_of({"schedule", "--search", "--pp", "2", "--microbatches", "4", "--stages-per-rank",
                 "1", "--layer-costs", costs(), "--json", "--emit", "megatron"});
  EXPECT_EQ(json.at("found").at("layers_per_stage"), Json({3, 1}));
  EXPECT_EQ(json.at("emit").at("pipeline_model_parallel_layout"), "Et*3|tL");
  EXPECT_NE(json.at("notes").dump().find("were measured elsewhere"), std::string::npos);
}

TEST_F(LayerCostsCommandTest, NamesFileAndKeyOfAFault) {
  test::write_file(costs(), R"({"layers": [{"name": "model.layers.*", "f": 1}]})");
  for (const Words& words : {Words{"split", "--layers", "4", "--pp", "2", "--layer-costs", costs()},
                             Words{"plan", config(), "--layer-costs", costs()},
                             Words{"schedule", "--search", "--pp", "2", "--microbatches", "4",
                                   "--layer-costs", costs()}}) {
    const ProgramResult result = run_sluice(words);
    EXPECT_EQ(result.exit_code, 3) << result.out;
    EXPECT_EQ(result.err, "sluice: error: 'layers[0].f' is not a key of layer costs; " + costs() +
                              "; did you mean 'F'?\n");
  }
}

TEST_F(LayerCostsCommandTest, PlansALargeMixtureThatItRefusesToTrain) {
  write_config("/reference/planned/deepseek_v3.json");
  const Json json = object_of({"plan", config(), "--json", "--training.seq_len=4096",
                               "--parallelism.pipeline_parallel_degree=16", "--flops", "400e12",
                               "--parallelism.partition=cost", "--emit", "megatron"});
  EXPECT_EQ(json.at("model").at("family"), "deepseek_v3");
  const std::string layout = json.at("emit").at("pipeline_model_parallel_layout");
  EXPECT_TRUE(layout.ends_with("mL")) << layout;
  const Json split = object_of(
      {"split", "--model", std::string(SLUICE_TEST_DATA) + "/reference/planned/deepseek_v3.json",
       "--pp", "16", "--layout", "Et*3|(tt|)*29m|L", "--json"});
  EXPECT_EQ(split.at("num_stages"), 32);
  EXPECT_EQ(split.at("stages").at(30).at("modules"), Json({"model.layers.61"}));
  const ProgramResult check = run_sluice({"config", "check", config()});
  EXPECT_EQ(check.exit_code, 3);
  EXPECT_NE(check.err.find("'deepseek_v3' can be planned, but not trained"), std::string::npos)
      << check.err;
}

}  // namespace
}  // namespace sluice
