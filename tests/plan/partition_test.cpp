#include "sluice/partition.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "sluice/error.h"
#include "support/peer_functions.h"

namespace sluice::partition_test {
namespace {

using testing::live_values_between_stages, testing::analyze_shared_weights_across_stages;
using testing::SharedWeights, testing::StageValues;

const std::string kModels = std::string(SLUICE_TEST_DATA) + "/reference/models/";

std::vector<int> shares(const Partition& partition) {
  std::vector<int> layers;
  for (const StageContent& stage : partition.stages) layers.push_back(stage.num_layers);
  return layers;
}

std::vector<int> shares(int layers, int stages, PartitionOptions options) {
  options.num_stages = stages;
  return shares(make_partition(model_spec_of_blocks(layers), options));
}

std::string refusal(const ModelSpec& model, const PartitionOptions& options) {
  try {
    make_partition(model, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    return error.what();
  }
  return "";
}

TEST(PartitionTest, PutsTheRemainderWhereItIsTold) {
  EXPECT_EQ(shares(10, 4, {}), (std::vector{3, 3, 2, 2}));
  EXPECT_EQ(shares(10, 4, {.remainder = Remainder::kLast}), (std::vector{2, 2, 3, 3}));
  EXPECT_EQ(shares(10, 4, {.remainder = Remainder::kMiddle}), (std::vector{2, 3, 3, 2}));
  EXPECT_EQ(shares(11, 4, {.remainder = Remainder::kMiddle}), (std::vector{2, 3, 3, 3}));
  EXPECT_EQ(shares(7, 3, {.remainder = Remainder::kMiddle}), (std::vector{2, 3, 2}));
}

TEST(PartitionTest, CountsWeightsOfEmbeddingAndHeadAsLayers) {
  EXPECT_EQ(shares(32, 4, {.first_stage_weight = 1, .last_stage_weight = 1}),
            (std::vector{8, 9, 8, 7}));
  EXPECT_EQ(shares(14, 4, {.first_stage_weight = 2, .last_stage_weight = 4}),
            (std::vector{3, 5, 5, 1}));
  EXPECT_NE(refusal(model_spec_of_blocks(8), {.num_stages = 4, .last_stage_weight = 9})
                .find("the weight of the last stage, 9, exceeds the 4 layers of a stage"),
            std::string::npos);
}

TEST(PartitionTest, AutomodelRefusesAModelThatEndsWithItsLayers) {
  ModelSpec model = model_spec_of_blocks(4);
  model.layers.resize(5);
  EXPECT_NE(refusal(model, {.convention = "automodel", .num_ranks = 2})
                .find("does not support the structure of this model"),
            std::string::npos);
}

TEST(PartitionTest, DeclaresTiedParametersOfSeveralStages) {
  const ModelSpec model = read_model_spec(kModels + "llama_tied");
  const Partition three = make_partition(model, {.num_ranks = 3});
  ASSERT_EQ(three.tie_groups.size(), 1u);
  EXPECT_EQ(three.tie_groups[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(three.tie_groups[0].stages, (std::vector{0, 2}));
  EXPECT_EQ(make_partition(model, {.num_ranks = 1}).tie_groups[0].stages, (std::vector{0}));
  EXPECT_TRUE(make_partition(read_model_spec(kModels + "llama_untied"), {.num_ranks = 2})
                  .tie_groups.empty());
}

TEST(PartitionTest, OwnsEveryParameterOnceOrTied) {
  const ModelSpec model = read_model_spec(kModels + "llama_tied");
  const Partition partition =
      make_partition(model, {.num_ranks = 2, .schedule = "Interleaved1F1B"});
  std::int64_t owned = 0;
  for (const StageContent& stage : partition.stages) owned += stage.num_parameters;
  const std::int64_t tied = model.layers.back().num_parameters();
  EXPECT_EQ(owned, model.num_parameters() + tied);
}

TEST(PartitionTest, PlacesStagesByAnyMapThatGivesEveryRankOne) {
  const ModelSpec model = model_spec_of_blocks(8);
  const Partition uneven = make_partition(
      model,
      {.num_ranks = 2, .schedule = std::nullopt, .num_stages = 4, .stage_to_rank = {1, 0, 0, 0}});
  EXPECT_EQ(uneven.stages_per_rank(), 3);
  EXPECT_EQ(uneven.stages[0].rank, 1);
  EXPECT_EQ(make_partition(model, {.num_stages = 4, .stage_to_rank = {0, 1, 1, 0}}).num_ranks(), 2);
  const auto refused = [&](std::vector<int> map) {
    return refusal(model, {.num_ranks = 2, .num_stages = 4, .stage_to_rank = std::move(map)});
  };
  EXPECT_NE(refused({0, 0, 0, 0}).find("rank 1 has no stage"), std::string::npos);
  EXPECT_NE(refused({0, 1, 2, 0}).find("rank 2"), std::string::npos);
  EXPECT_NE(refused({0, 1, -1, 0}).find("rank -1"), std::string::npos);
  EXPECT_NE(refused({0, 1}).find("2 ranks for 4 stages"), std::string::npos) << refused({0, 1});
}

TEST(PartitionTest, KeepsExplicitModulesAndFindsWhatTheyLose) {
  const ModelSpec model = model_spec_of_blocks(3);
  const auto options = [](ModuleNames modules) {
    PartitionOptions out;
    out.convention = "automodel";
    out.modules = std::move(modules);
    return out;
  };
  const ModuleNames good = {{"model.rotary_emb", "model.layers.0", "model.embed_tokens"},
                            {"model.layers.1", "model.layers.2", "model.norm", "lm_head"}};
  const Partition partition = make_partition(model, options(good));
  EXPECT_EQ(partition.stages[0].modules, good[0]);
  EXPECT_EQ(partition.split_points, (std::vector<std::string>{"model.layers.1"}));

  const auto expect_refusal = [&](ModuleNames modules, const std::string& text) {
    const std::string message = refusal(model, options(std::move(modules)));
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  expect_refusal({{"model.embed_tokens", "model.layers.0"}, {"model.layers.2", "lm_head"}},
                 "'model.layers.1', 'model.norm' are on no stage");
  expect_refusal({good[0], {"model.layers.0", "model.layers.1"}}, "'model.layers.0' appears twice");
  expect_refusal({good[1], good[0]}, "does not come after");
  expect_refusal({good[0], {"model.rotary_emb"}, good[1]}, "stage 1 of the modules has no layer");
  expect_refusal({good[0], {"model.layer.1"}}, "did you mean 'model.layers.1'?");
  expect_refusal({good[0], {"model.vision_tower"}}, "unknown name 'model.vision_tower'");
}

TEST(PartitionTest, RefusesAutoModelOptionsThatLoseOrRepeatLayers) {
  const ModelSpec model = read_model_spec(kModels + "llama_untied");
  PartitionOptions options;
  options.convention = "automodel";
  options.num_ranks = 2;
  options.lm_head = false;
  EXPECT_NE(refusal(model, options).find("'lm_head.weight' would be on no stage"),
            std::string::npos);
  options.lm_head = true;
  options.prefix = "transformer.";
  EXPECT_NE(refusal(model, options).find("the model's is 'model.'"), std::string::npos);
  options.prefix.reset();
  options.extra_modules = {"model.layers.1"};
  EXPECT_NE(refusal(model, options).find("has a stage already"), std::string::npos);
}

TEST(PartitionTest, NamesWinOverLayersPerStageAsInTorchtitan) {
  PartitionOptions options;
  options.num_ranks = 2;
  options.layers_per_stage = 2;
  options.convention = "torchtitan";
  options.split_points = {"layers.3"};
  const Partition partition = make_partition(model_spec_of_blocks(8), options);
  EXPECT_EQ(shares(partition), (std::vector{3, 5}));
  EXPECT_EQ(partition.notes,
            (std::vector<std::string>{
                "`layers_per_stage` = 2 is not used: the split points win, as in torchtitan"}));
  options.convention = "torchtitan-2024";
  EXPECT_EQ(make_partition(model_spec_of_blocks(8), options).notes, partition.notes);
  options.convention = "sluice";
  options.split_points = {"model.layers.3"};
  EXPECT_NE(refusal(model_spec_of_blocks(8), options)
                .find("split points and `layers_per_stage` exclude each other"),
            std::string::npos);
}

TEST(PartitionTest, ANameOfAnotherConventionSaysWhichOne) {
  const ModelSpec model = model_spec_of_blocks(4);
  const auto refused = [&](const std::string& convention, const std::string& name) {
    PartitionOptions options;
    options.convention = convention;
    options.split_points = {name};
    return refusal(model, options);
  };
  EXPECT_EQ(refused("sluice", "layers.1"),
            "unknown name 'layers.1' in the split points; 'layers.1' is a name of convention "
            "torchtitan: set `partition_convention` to that, or write 'model.layers.1'");
  EXPECT_NE(
      refused("torchtitan", "model.layers.1")
          .find("is a name of convention sluice: set `partition_convention` to that, or write "
                "'layers.1'"),
      std::string::npos);
  EXPECT_NE(refused("sluice", "layers.7").find("layers are 'model.layers.0' to"),
            std::string::npos);

  PartitionOptions listed;
  listed.modules = {
      {"model.embed_tokens", "model.layers.0", "model.rotary_emb"},
      {"model.layers.1", "model.layers.2", "model.layers.3", "model.norm", "lm_head"}};
  EXPECT_EQ(refusal(model, listed),
            "unknown name 'model.rotary_emb' in the modules; 'model.rotary_emb' is a name of "
            "convention automodel: set `partition_convention` to that, or leave it out");
  listed.convention = "automodel";
  EXPECT_EQ(make_partition(model, listed).num_stages(), 2);

  PartitionOptions cut;
  cut.cuts = {"layers.1"};
  EXPECT_EQ(refusal(model, cut),
            "unknown name 'layers.1' in the cuts; 'layers.1' is a name of convention torchtitan: "
            "write 'model.layers.1'");
}

TEST(PartitionTest, KeepsItsInvariantsUnderRandomOptions) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const std::vector<std::optional<ScheduleName>> schedules = {
      std::nullopt, "1F1B", ScheduleKind::kInterleaved1F1B, "ZBVZeroBubble"};
  int made = 0;
  for (int sample = 0; sample < 20000; ++sample) {
    PartitionOptions options;
    options.convention = partition_conventions()[draw(0, 5)];
    options.num_ranks = draw(0, 5);
    options.schedule = schedules[draw(0, 3)];
    if (draw(0, 2) == 0) options.num_stages = draw(0, 9);
    if (draw(0, 2) == 0) options.layers_per_stage = draw(0, 6);
    if (draw(0, 3) == 0) options.rounding = draw(0, 1) ? Rounding::kUp : Rounding::kDown;
    if (draw(0, 3) == 0) options.first_stage_weight = draw(0, 4);
    if (draw(0, 3) == 0) options.last_stage_weight = draw(0, 4);
    if (draw(0, 3) == 0) options.remainder = static_cast<Remainder>(draw(0, 2));
    if (draw(0, 3) == 0) options.placement = static_cast<Placement>(draw(0, 1));
    const int num_layers = draw(0, 24);
    Partition partition;
    try {
      partition = make_partition(model_spec_of_blocks(num_layers), options);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
      continue;
    }
    ++made;
    ASSERT_EQ(partition.stages.size(), static_cast<std::size_t>(partition.num_stages()));
    ASSERT_EQ(partition.split_points.size() + 1, partition.stages.size());
    std::set<int> ranks;
    int next = 0;
    for (const StageContent& stage : partition.stages) {
      ASSERT_EQ(stage.first_layer, next);
      ASSERT_FALSE(stage.modules.empty());
      next += stage.num_layers;
      ranks.insert(stage.rank);
    }
    ASSERT_EQ(next, num_layers);
    ASSERT_EQ(ranks.size(), static_cast<std::size_t>(partition.num_ranks()));
  }
  EXPECT_GT(made, 2000);
}

TEST(StageValuesTest, NamesAValueThatNobodyProducesOrReads) {
  const auto refused = [](const std::vector<StageValues>& stages) -> std::string {
    try {
      live_values_between_stages(stages, {"ids"});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused({{{"ids"}, {"h"}}, {{"h", "mask"}, {"out"}}})
                .find("'mask' is produced by no stage before; stage 1"),
            std::string::npos);
  EXPECT_NE(refused({{{"h"}, {"out"}}}).find("stage 0"), std::string::npos);
  EXPECT_NE(refused({{{"ids"}, {"h", "aux"}}, {{"h"}, {"out"}}})
                .find("'aux' is sent but no later stage reads it; stage 0"),
            std::string::npos);
  EXPECT_NE(refused({{{"ids"}, {"h"}}, {{"h"}, {"h"}}}).find("produced twice"), std::string::npos);
}

TEST(StageValuesTest, CountsAWeightOncePerRank) {
  const SharedWeights shared = analyze_shared_weights_across_stages(
      2, {{{"embed", "E"}}, {{"a", "A"}}, {{"embed_again", "E"}}, {{"head", "E"}, {"a2", "A"}}});
  ASSERT_EQ(shared.groups.size(), 1u);
  EXPECT_EQ(shared.groups[0],
            (std::vector<std::pair<std::string, int>>{{"embed", 0}, {"head", 1}}));
  EXPECT_FALSE(shared.shared_on_rank[0].at("E"));
  EXPECT_TRUE(shared.shared_on_rank[1].at("E"));
  EXPECT_FALSE(shared.shared_on_rank[1].at("A"));
}

TEST(PartitionTest, AConventionIsSaidByNameOrKind) {
  for (std::size_t i = 0; i < partition_conventions().size(); ++i) {
    const ConventionName named = partition_conventions()[i];
    EXPECT_EQ(static_cast<std::size_t>(named.kind()), i);
    EXPECT_EQ(ConventionName(named.kind()).text(), partition_conventions()[i]);
  }
  try {
    ConventionName("torchtitan-2025");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(error.remedy().find("torchtitan"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sluice::partition_test
