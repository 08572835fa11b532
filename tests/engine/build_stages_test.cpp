#include "sluice/parts/stage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "sluice/model.h"
#include "support/even_partition.h"
#include "support/expect_error.h"
#include "support/user_models.h"

namespace sluice::test {
namespace {

Model model_of(int blocks) {
  return {make_user_layers(UserModel::kMlp, blocks, 8, 0.1),
          {"x", "y"},
          {"prediction"},
          &squared_error};
}

TEST(BuildStagesTest, MakesTheModulesOfItsOwnRankAndOfNoOther) {
  Model model = model_of(4);
  std::set<std::string> made;
  for (LayerSpec& layer : model.layers) {
    layer.make = [&made, name = layer.name, make = layer.make] {
      made.insert(name);
      return make();
    };
  }
  const Partition partition = even_partition(model, make_stage_map(Placement::kV, 3, 6));
  const RankStages stages = build_stages(model, partition, 1);
  EXPECT_EQ(made, (std::set<std::string>{"block0", "block3"}));
  ASSERT_EQ(stages.stages().size(), 2u);
  EXPECT_EQ(stages.stages()[0]->index(), 1);
  EXPECT_EQ(stages.stages()[1]->index(), 4);
  EXPECT_EQ(stages.stages()[0]->parameters()[0].name, "block0.norm.weight");
  EXPECT_EQ(stages.stages()[0]->chunk().inputs(), std::vector<std::string>{"hidden"});
}

TEST(BuildStagesTest, KnowsTheSizesOfWhatEntersEveryStage) {
  Model model = model_of(2);
  const Partition partition = even_partition(model, make_stage_map(Placement::kLoop, 4, 4));
  const Values batch{{"x", at::ones({5, 8})}, {"y", at::ones({5, 8})}};
  RankStages stages = build_stages(model, partition, 3);
  const auto metas = stages.input_metas(3, batch);
  ASSERT_TRUE(metas.has_value());
  EXPECT_EQ(*metas, (std::vector<TensorMeta>{{{5, 8}, at::kFloat}}));
  model.layers[1].shapes = nullptr;
  EXPECT_FALSE(build_stages(model, partition, 3).input_metas(3, batch).has_value());
}

TEST(BuildStagesTest, TiedParametersOfOneRankShareStorage) {
  Model model = model_of(2);
  model.layers.back().ties = {{"weight", "first.weight"}};
  const Partition partition = even_partition(model, make_stage_map(Placement::kV, 2, 4));
  ASSERT_EQ(partition.tie_groups.size(), 1u);
  EXPECT_EQ(partition.tie_groups[0].stages, (std::vector<int>{0, 3}));
  const RankStages stages = build_stages(model, partition, 0);
  EXPECT_EQ(stages.stages()[0]->parameters()[0].tensor.const_data_ptr(),
            stages.stages()[1]->parameters()[0].tensor.const_data_ptr());
}

TEST(BuildStagesTest, TakesABackwardForAStage) {
  const Model model = model_of(2);
  const Partition partition = even_partition(model, make_stage_map(Placement::kLoop, 2, 4));
  std::set<int> asked;
  StageOptions options;
  options.backward_of = [&](int stage) {
    asked.insert(stage);
    return ChunkBackwardMaker();
  };
  build_stages(model, partition, 1, options);
  EXPECT_EQ(asked, (std::set<int>{1, 3}));
}

TEST(BuildStagesTest, RefusesThePartitionOfAnotherModel) {
  const Partition partition = even_partition(model_of(2), make_stage_map(Placement::kLoop, 2, 2));
  const Error error = error_of([&] { build_stages(model_of(4), partition, 0); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.fact(), "the partition has 4 layers, but the model has 6");
}

TEST(DescribeTest, TakesWhatLayersSayOfThemselvesWithoutMakingAny) {
  Model model = model_of(2);
  for (LayerSpec& layer : model.layers) {
    layer.make = []() -> std::shared_ptr<torch::nn::Module> {
      throw std::logic_error("a module was made");
    };
  }
  model.layers.front().role = LayerRole::kEmbedding;
  model.layers.back().ties = {{"weight", "first.weight"}};
  const ModelSpec spec = describe(model.layers);
  ASSERT_EQ(spec.layers.size(), 4u);
  EXPECT_EQ(spec.layers[0].role, LayerRole::kEmbedding);
  EXPECT_EQ(spec.layers[0].parameters.at(0).name, "first.weight");
  EXPECT_EQ(spec.layers[3].parameters.at(0).name, "last.weight");
  EXPECT_EQ(spec.layers[3].parameters.at(0).tied_to, "first.weight");
  EXPECT_EQ(spec.layers[1].reads, std::vector<std::string>{"hidden"});
  EXPECT_EQ(spec.layers[3].writes.at(0).name, "prediction");
}

}  // namespace
}  // namespace sluice::test
