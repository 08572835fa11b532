#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "support/run_program.h"

namespace sluice::testing {
namespace {

using Json = nlohmann::json;

class PlanCompareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    test::write_file(folder_ / "config.json",
                     R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
  "intermediate_size": 128, "num_hidden_layers": 8, "num_attention_heads": 4,
  "max_position_embeddings": 512})");
    test::write_file(config_, R"([model]
config = "config.json"
[training]
seq_len = 64
local_batch_size = 8
[parallelism]
pipeline_parallel_degree = 4
)");
  }

  ProgramResult plan(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"plan", config_});
    return run_sluice(arguments);
  }

  Json plan_object(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const ProgramResult result = plan(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out);
  }

  static Json row(const Json& comparison, const std::string& name, int stages_per_rank) {
    for (const Json& each : comparison.at("candidates")) {
      if (each.at("name") == name && each.at("stages_per_rank") == stages_per_rank) return each;
    }
    return {};
  }

  const test::TempDirectory folder_;
  const std::string config_ = folder_ / "run.toml";
};

TEST_F(PlanCompareTest, RowsAreThePlansOfTheirSchedules) {
  const Json comparison = plan_object({"--compare", "--flops", "1e9", "--bandwidth", "1e8"});
  const auto& rows = comparison.at("candidates");
  ASSERT_GE(rows.size(), 8u);
  EXPECT_EQ(comparison.at("unit"), "s");
  double before = 0;
  int compared = 0;
  for (const Json& each : rows) {
    EXPECT_EQ(each.at("taken"), &each == &rows.front());
    if (!each.at("ok")) continue;
    EXPECT_GE(each.at("step").get<double>(), before * (1 - 1e-6)) << each;
    before = each.at("step");
    if (each.at("name") == "searched") continue;
    const Json alone = plan_object({"--flops", "1e9", "--bandwidth", "1e8",
                                    "--parallelism.pipeline_parallel_schedule", each.at("name"),
                                    "--parallelism.pipeline_parallel_stages_per_rank",
                                    std::to_string(each.at("stages_per_rank").get<int>())});
    EXPECT_EQ(alone.at("prediction").at("step"), each.at("step")) << each;
    EXPECT_EQ(alone.at("simulate").at("bubble_fraction"), each.at("bubble_fraction")) << each;
    std::int64_t peak = 0;
    for (const Json& rank : alone.at("memory"))
      peak = std::max(peak, rank.at("total_bytes").get<std::int64_t>());
    EXPECT_EQ(peak, each.at("peak_bytes")) << each;
    ++compared;
  }
  EXPECT_GE(compared, 5);
  EXPECT_EQ(row(comparison, "1F1B", 1).at("configured"), true);
  EXPECT_EQ(row(comparison, "GPipe", 1).at("configured"), false);
  EXPECT_EQ(row(comparison, "LoopedBFS", 2).at("ok"), false);
}

TEST_F(PlanCompareTest, SaysHowASearchedOrderIsPlaced) {
  const Json comparison = plan_object({"--compare", "--flops", "1e9", "--bandwidth", "1e8"});
  const ProgramResult table = plan({"--compare", "--flops", "1e9", "--bandwidth", "1e8"});
  int searched = 0;
  for (const Json& each : comparison.at("candidates")) {
    if (each.at("name") != "searched") continue;
    ++searched;
    const std::string title =
        each.at("placement") == "v" ? "\n  searched, V " : "\n  searched, loop ";
    EXPECT_NE(table.out.find(title), std::string::npos) << table.out;
  }
  EXPECT_GT(searched, 0);
  EXPECT_EQ(table.out.find("\n  searched  "), std::string::npos) << table.out;
}

// Messages take no time here.
TEST_F(PlanCompareTest, StepsFollowTheSpeed) {
  const double slow = plan_object({"--flops", "1e9"}).at("prediction").at("step");
  const double fast = plan_object({"--flops", "2e9"}).at("prediction").at("step");
  EXPECT_NEAR(slow / fast, 2, 1e-9);
  const double far =
      plan_object({"--flops", "2e9", "--bandwidth", "1e6"}).at("prediction").at("step");
  // A message is 64 x 64 floats. The first microbatch crosses three boundaries before rank 3 can
  // start.
  EXPECT_GT(far, fast + 3 * 64 * 64 * 4 / 1e6);
}

TEST_F(PlanCompareTest, RecomputedLayersTakeTheirForwardAgain) {
  const double plain = plan_object({"--flops", "1e9"}).at("prediction").at("step");
  const Json again = plan_object({"--flops", "1e9", "--training.activation_checkpoint", "full"});
  EXPECT_GT(again.at("prediction").at("step").get<double>(), 1.2 * plain);
}

TEST_F(PlanCompareTest, SaysWhatDoesNotFit) {
  const Json comparison = plan_object({"--compare", "--device-memory", "1MB"});
  EXPECT_EQ(comparison.at("memory_per_rank"), 1'000'000);
  for (const Json& each : comparison.at("candidates")) {
    EXPECT_EQ(each.at("ok"), false);
    EXPECT_EQ(each.at("taken"), false);
    EXPECT_NE(each.at("reason"), "");
  }
  EXPECT_NE(plan({"--compare", "--device-memory", "1MB"})
                .out.find("none can run: those that can be planned need more"),
            std::string::npos);
}

TEST_F(PlanCompareTest, WhatIsConfiguredAndCannotBeHadIsARow) {
  const Json comparison = plan_object({"--compare", "--parallelism.pipeline_parallel_degree", "8",
                                       "--parallelism.pipeline_parallel_schedule", "DualPipeV"});
  const Json configured = row(comparison, "DualPipeV", 2);
  EXPECT_EQ(configured.at("configured"), true);
  EXPECT_EQ(configured.at("reason"), "8 layers cannot fill 16 stages");
  EXPECT_EQ(comparison.at("candidates").front().at("ok"), true);
}

TEST_F(PlanCompareTest, AWrongSettingIsRefusedBeforeAnyCandidate) {
  const std::vector<std::array<std::string, 3>> wrong = {
      {"training.trainable", R"(["*.q_porj.*"])",
       "training.trainable: '*.q_porj.*' matches no "
       "parameter; --training.trainable; did you mean "
       "'*q_proj*'?"},
      {"parallelism.tensor_parallel_degree", "3",
       "parallelism.tensor_parallel_degree = 3 does not divide 4 key-value heads of "
       "'model.layers.0'; --parallelism.tensor_parallel_degree; the nearest is 2 or 4"},
      {"training.activation_checkpoint", R"(["model.layer.1"])",
       "training.activation_checkpoint: no layer is named 'model.layer.1'; "
       "--training.activation_checkpoint; "},
      {"optimizer.no_decay", R"(["norm"])",
       "optimizer.no_decay: 'norm' matches no parameter; --optimizer.no_decay; "},
      {"parallelism.stage_to_rank", "[0, 5]", "parallelism.stage_to_rank names rank 5"},
      {"parallelism.pipeline_parallel_degree", "9", "8 layers cannot fill 9 stages; "}};
  const std::vector<std::vector<std::string>> ways = {
      {"--compare"},
      {"--parallelism.pipeline_parallel_schedule=auto", "--parallelism.partition=cost"},
      {"--parallelism.pipeline_parallel_schedule=auto", "--parallelism.partition=even"}};
  for (const auto& [key, value, says] : wrong) {
    for (std::vector<std::string> arguments : ways) {
      arguments.insert(arguments.end(), {"--" + key, value});
      const ProgramResult result = plan(arguments);
      EXPECT_EQ(result.exit_code, 2) << key << result.err;
      EXPECT_EQ(result.out, "") << key;
      EXPECT_TRUE(result.err.starts_with("sluice: error: " + says)) << result.err;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
  }
}

// The rounded number in the error message is sufficient as device memory.
TEST_F(PlanCompareTest, TheSmallestNeedPassesAsItIsPrinted) {
  const std::vector<std::string> chosen = {"--parallelism.pipeline_parallel_schedule=auto",
                                           "--parallelism.partition=cost"};
  const auto with_memory = [&](const std::string& memory) {
    std::vector<std::string> arguments = chosen;
    arguments.insert(arguments.end(), {"--parallelism.device_memory", memory});
    return plan(arguments);
  };
  const ProgramResult refused = with_memory("1KB");
  EXPECT_EQ(refused.exit_code, 7) << refused.err;
  const std::string before = "the smallest needs ";
  const std::size_t at = refused.err.find(before);
  ASSERT_NE(at, std::string::npos) << refused.err;
  const std::string from = refused.err.substr(at + before.size());
  const ProgramResult passes = with_memory(from.substr(0, from.find(' ')));
  EXPECT_EQ(passes.exit_code, 0) << passes.err;
}

TEST_F(PlanCompareTest, RefusesRatesThatAreNone) {
  for (const char* value : {"0", "-1e9", "nan", "inf", "fast", "1e9x"}) {
    const ProgramResult result = plan({std::string("--flops=") + value});
    EXPECT_EQ(result.exit_code, 2) << value;
    EXPECT_EQ(result.err, std::string("sluice: error: '") + value +
                              "' is not a number above 0; --flops; give it as --flops 400e12\n");
  }
  EXPECT_EQ(plan({"--bandwidth", "1e9"}).err,
            "sluice: error: --bandwidth needs --flops; command 'sluice plan'; give --flops too\n");
}

}  // namespace
}  // namespace sluice::testing
