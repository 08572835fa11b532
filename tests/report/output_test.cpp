#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "report/partition_output.h"
#include "report/program_output.h"

namespace sluice::output_test {
namespace {

const std::string kModels = std::string(SLUICE_TEST_DATA) + "/reference/models/";

TEST(OutputTest, ThePartitionOfAModelHasParametersBytesAndShapes) {
  const ModelSpec model = read_model_spec(kModels + "llama_tied");
  const Partition partition = make_partition(model, {.num_ranks = 2});
  const auto object = partition_json(model, partition, stage_shapes(model, partition, 2, 16));
  const auto& stage = object.at("stages").list().at(1);
  EXPECT_EQ(stage.at("parameters").list().back(), "lm_head.weight");
  EXPECT_EQ(stage.at("num_parameters"), partition.stages[1].num_parameters);
  EXPECT_EQ(stage.at("bytes"), 4 * partition.stages[1].num_parameters);
  EXPECT_EQ(stage.at("input_shape"), (std::vector<int>{2, 16, 64}));
  EXPECT_EQ(stage.at("input_dtype"), "float32");
  EXPECT_EQ(object.at("tie_groups").list().at(0).at("stages"), (std::vector<int>{0, 1}));
}

TEST(OutputTest, APartitionByCountsAloneHasNeither) {
  const ModelSpec model = model_spec_of_blocks(4);
  const auto object = partition_json(model, make_partition(model, {.num_ranks = 2}), {});
  for (const char* key : {"parameters", "num_parameters", "bytes", "input_shape"}) {
    EXPECT_FALSE(object.at("stages").list().at(0).contains(key)) << key;
  }
  EXPECT_FALSE(object.contains("tie_groups"));
}

TEST(OutputTest, SaysTheWeightsThatTheLayersWereCountedWith) {
  const ModelSpec model = model_spec_of_blocks(6);
  PartitionOptions options;
  options.num_ranks = 2;
  options.convention = "torchtitan";
  const Partition counted = make_partition(model, options);
  EXPECT_EQ(partition_json(model, counted, {}).at("first_stage_weight"), 1);
  EXPECT_NE(partition_text(model, counted, {}, 80)
                .find("counted with the embedding as 1 layer, norm and head as 1 layer\n"),
            std::string::npos);
  options.split_points = {"layers.2"};
  const Partition named = make_partition(model, options);
  EXPECT_FALSE(partition_json(model, named, {}).contains("first_stage_weight"));
  EXPECT_EQ(partition_text(model, named, {}, 80).find("counted"), std::string::npos);
}

TEST(OutputTest, NamesTheCutsAsTheConventionDoes) {
  const ModelSpec model = model_spec_of_blocks(6);
  PartitionOptions options;
  options.num_ranks = 3;
  EXPECT_NE(partition_text(model, make_partition(model, options), {}, 80)
                .find("cut before model.layers.2, model.layers.4\n"),
            std::string::npos);
  options.convention = "neuronx";
  const Partition partition = make_partition(model, options);
  EXPECT_NE(
      partition_text(model, partition, {}, 80).find("cut after model.layers.1, model.layers.3\n"),
      std::string::npos);
  EXPECT_EQ(partition_json(model, partition, {}).at("cuts").list().at(1), "model.layers.3");
}

TEST(OutputTest, TheTableOfStagesFitsTheTerminal) {
  const ModelSpec model = read_model_spec(kModels + "llama_tied");
  const Partition partition = make_partition(model, {.num_ranks = 5});
  const std::string text =
      partition_text(model, partition, stage_shapes(model, partition, 1, 8), 60, "  ");
  for (const std::string& line : split(text, '\n')) EXPECT_LE(line.size(), 60u) << line;
  EXPECT_NE(text.find("model.embed_tokens"), std::string::npos);
}

TEST(OutputTest, AProofHasItsViolations) {
  VerifyReport report;
  report.violations.push_back({1, 2, "1B0", "its forward has not run"});
  const auto object = verify_json(report);
  EXPECT_EQ(object.at("ok"), false);
  EXPECT_EQ(object.at("violations").list().at(0).at("action"), "1B0");
}

}  // namespace
}  // namespace sluice::output_test
