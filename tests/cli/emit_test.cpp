// --emit and --layout of split, plan and schedule --search.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/run_program.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using testing::ProgramResult;
using testing::run_sluice;
using Words = std::vector<std::string>;

class EmitTest : public ::testing::Test {
 protected:
  EmitTest() {
    test::write_file(config(), "[model]\nconfig = \"" + std::string(SLUICE_TEST_DATA) +
                                   "/reference/models/llama_untied/config.json\"\n"
                                   "[training]\nlocal_batch_size = 4\nseq_len = 16\n"
                                   "[data]\ntokenizer = \"bytes\"\n"
                                   "[parallelism]\npipeline_parallel_degree = 2\n");
    Json costs = {{"sluice_costs", 1}, {"unit", "s"}, {"layers", Json::array()}};
    for (const char* text : {"model", "family", "dtype", "mixed_precision", "operators",
                             "optimizer", "recomputed", "transport", "cpu"})
      costs["of"][text] = "x";
    for (const char* number : {"microbatch_size", "seq_len", "threads_per_rank"})
      costs["of"][number] = 1;
    const auto add = [&](const std::string& name, const std::string& role, double time) {
      costs["layers"].push_back(
          {{"name", name}, {"role", role}, {"F", time}, {"I", time}, {"W", time}});
    };
    add("model.embed_tokens", "embedding", 0.1);
    for (int i = 0; i < 4; ++i) add("model.layers." + std::to_string(i), "block", 1.0);
    add("model.norm", "norm", 0.1);
    add("lm_head", "head", 2.0);
    test::write_file(costs_file(), costs.dump());
  }

  std::string config() const { return folder_ / "run.toml"; }
  std::string costs_file() const { return folder_ / "costs.json"; }
  ProgramResult search(Words more) {
    Words words = {"schedule",       "--search", "--pp",    "2",
                   "--microbatches", "4",        "--costs", costs_file()};
    words.insert(words.end(), more.begin(), more.end());
    return run_sluice(words);
  }

  test::TempDirectory folder_;
};

std::string output_of(const ProgramResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

TEST_F(EmitTest, ClustersAreRefusedAsNotBuilt) {
  for (const Words& words :
       {Words{"split", "--layers", "4", "--pp", "2"}, Words{"plan", config()},
        Words{"schedule", "--name", "1F1B", "--pp", "2", "--microbatches", "2"}}) {
    Words with = words;
    with.insert(with.end(), {"--cluster", "h100x8"});
    const ProgramResult result = run_sluice(with);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find("--cluster is not built yet"), std::string::npos) << result.err;
  }
}

TEST_F(EmitTest, SplitPrintsAnotherTrainersSettings) {
  EXPECT_EQ(output_of(run_sluice({"split", "--layers", "4", "--pp", "2", "--emit", "megatron"})),
            "# Megatron-LM: arguments; Megatron-Bridge: cfg.model.* of these names\n"
            "--pipeline-model-parallel-size 2\n"
            "--pipeline-model-parallel-layout \"Ett|ttL\"\n");
  const Json json =
      Json::parse(output_of(run_sluice({"split", "--layers", "4", "--pp", "2", "--layout", "E|t*4L",
                                        "--emit", "torchtitan", "--json"})));
  EXPECT_EQ(json.at("emit").at("module_fqns_per_model_part").at(0), Json({"tok_embeddings"}));
  EXPECT_EQ(json.at("stages").at(1).at("num_layers"), 4);
}

TEST_F(EmitTest, PlanReadsALayoutAndWritesTheOrder) {
  const std::string csv = folder_ / "order.csv";
  const std::string text = output_of(run_sluice(
      {"plan", config(), "--layout",
       R"([["tok_embeddings"],["layers.0","layers.1","layers.2","layers.3","norm","output"]])",
       "--emit", "automodel", "--out", csv}));
  EXPECT_NE(text.find("pp_schedule_csv: \"" + csv + "\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("- [\"model.embed_tokens\", \"model.rotary_emb\"]\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("local_batch_size: 4\n"), std::string::npos) << text;
  EXPECT_EQ(run_sluice({"schedule", "--csv", csv, "--check"}).exit_code, 0);
  const Json json = Json::parse(output_of(
      run_sluice({"plan", config(), "--layout", "Et|t*3L", "--json", "--emit", "megatron"})));
  EXPECT_EQ(json.at("emit").at("pipeline_model_parallel_layout"), "Et|t*3L");
  EXPECT_EQ(json.at("split").at("stages").at(0).at("num_layers"), 1);
}

TEST_F(EmitTest, SearchWritesWhatTheTrainerCanRun) {
  EXPECT_NE(output_of(search({"--emit", "megatron"})).find("\"Et|t|tt|L\""), std::string::npos);
  const Json json = Json::parse(output_of(search(
      {"--layout", "Et|t*3L", "--emit", "torchtitan", "--json", "--out", folder_ / "found.csv"})));
  EXPECT_EQ(json.at("emit").at("module_fqns_per_model_part").at(0),
            Json({"tok_embeddings", "layers.0"}));
  EXPECT_EQ(json.at("emit").at("schedule_csv"), test::read_file(folder_ / "found.csv"));
}

TEST_F(EmitTest, RefusesWhatDoesNotFit) {
  const auto refusal = [](const ProgramResult& result, int exit_code = 2) {
    EXPECT_EQ(result.exit_code, exit_code) << result.out;
    EXPECT_EQ(testing::parts_of(result.err), 3) << result.err;
    return result.err;
  };
  EXPECT_NE(refusal(run_sluice({"plan", config(), "--emit", "megatorn"}))
                .find("did you mean 'megatron'?"),
            std::string::npos);
  EXPECT_NE(refusal(run_sluice({"plan", config(), "--layout", "Ett|x"})).find("--layout"),
            std::string::npos);
  EXPECT_NE(refusal(run_sluice({"split", "--layers", "4", "--layout", "EttttL", "--cuts", "a"}))
                .find("--layout and --cuts exclude each other"),
            std::string::npos);
  EXPECT_NE(refusal(run_sluice({"schedule", "--search", "--pp", "2", "--microbatches", "4",
                                "--costs", "F=1", "--emit", "torch", "--out", folder_ / "x.csv"}))
                .find("these are costs of stages"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.csv"));
  const auto split_refusal = [&](const char* schedule, const char* placement) {
    return refusal(run_sluice({"split", "--layers", "4", "--pp", "2", "--stages", "4", "--schedule",
                               schedule, "--stage-to-rank", placement, "--emit", "torchtitan"}));
  };
  EXPECT_NE(split_refusal("1F1B", "loop").find("1F1B does not run 4 stages on ranks [0,1,0,1]"),
            std::string::npos);
  EXPECT_NE(split_refusal("ZBVZeroBubble", "loop").find("use --schedule Interleaved1F1B"),
            std::string::npos);
  EXPECT_NE(split_refusal("Interleaved1F1B", "v").find("use --schedule ZBVZeroBubble"),
            std::string::npos);
  EXPECT_NE(refusal(search({"--layout", "Et|t|t*2L"})).find("the layout has 3 stages"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice
