#include "plan/predict/layer_costs.h"

#include <gtest/gtest.h>

#include "sluice/error.h"
#include "sluice/plan.h"
#include "support/expect_error.h"

namespace sluice::layer_costs_test {
namespace {

CostedModel costed(const std::string& text, int num_blocks = 4) {
  return with_layer_costs(parse_layer_costs(text, "costs.json"), model_spec_of_blocks(num_blocks),
                          {1, 1}, OptimizerKind::kAdamW);
}

std::vector<double> forwards(const LayerTimes& times) {
  std::vector<double> result;
  for (const LayerTime& layer : times.layers) result.push_back(layer.forward);
  return result;
}

TEST(LayerCostsTest, MatchesNamesThenPatternsThenClasses) {
  const CostedModel model = costed(R"({"layers": [
      {"class": "block", "F": 1, "B": 2}, {"name": "model.layers.*", "count": 1, "F": 5, "B": 2},
      {"name": "layers.2", "F": 7, "B": 2}, {"name": "tok_embeddings", "F": 3, "W": 1},
      {"class": "norm", "F": 0, "I": 0}, {"name": "output", "F": 9, "I": 4, "W": 5}]})");
  EXPECT_EQ(forwards(model.times), (std::vector<double>{3, 5, 1, 7, 1, 0, 9}));
  EXPECT_EQ(model.times.layers[6].backward, 9);
  EXPECT_EQ(model.times.layers[1].backward_input, 1);  // half of B
  EXPECT_EQ(model.times.layers[1].backward_weight, 1);
  EXPECT_TRUE(model.times.elsewhere);
  ASSERT_EQ(model.notes.size(), 2u);
  EXPECT_EQ(
      model.notes[0],
      "the costs of layers in costs.json were measured elsewhere, so they are not compared with "
      "this run");
}

TEST(LayerCostsTest, ReadsUnitsAndSizes) {
  const CostedModel model = costed(R"({"unit": "ms", "latency": 2, "bandwidth": 5,
      "layers": [{"name": "*", "F": 4, "B": 8, "kept_bytes": 100, "sent_bytes": 30}]})");
  EXPECT_DOUBLE_EQ(model.times.layers[1].forward, 0.004);
  EXPECT_DOUBLE_EQ(model.times.latency, 0.002);
  EXPECT_DOUBLE_EQ(model.times.bandwidth, 5000);
  EXPECT_EQ(model.times.layers[1].kept_bytes, 100);
  EXPECT_EQ(model.times.layers[1].output_bytes, 30);
  EXPECT_EQ(model.model.layers[1].cost.after_forward.at({3, 7}), 100);
}

TEST(LayerCostsTest, SplitsAPlanByTheCosts) {
  PipelineOptions options;
  options.num_ranks = 2;
  options.num_microbatches = 4;
  options.balance = Balance::kMeasured;
  CostedModel model = costed(R"({"layers": [{"class": "block", "F": 1, "I": 1, "W": 1},
      {"class": "embedding", "F": 0, "B": 0}, {"class": "norm", "F": 0, "B": 0},
      {"class": "head", "F": 2, "I": 2, "W": 2}]})");
  options.times = std::make_shared<const LayerTimes>(std::move(model.times));
  const Plan plan = plan_pipeline(std::move(model.model), options);
  EXPECT_EQ(plan.partition.stages[0].num_layers, 3);
  EXPECT_EQ(plan.time_unit, "s");
  EXPECT_DOUBLE_EQ(plan.simulation.ranks[0].busy, 4 * 9.0);
}

TEST(LayerCostsTest, MakesAModelOfItsOwnList) {
  const CostedModel made = model_of_layer_costs(parse_layer_costs(R"({"layers": [
      {"name": "tok_embeddings", "F": 1, "B": 1, "parameter_bytes": 10},
      {"name": "layers.*", "count": 2, "F": 1, "B": 1}, {"name": "layers.*", "F": 2, "B": 1},
      {"name": "mtp", "class": "mtp", "F": 2, "B": 1}, {"name": "norm", "F": 0, "B": 0},
      {"name": "output", "F": 3, "B": 1}]})",
                                                                  "costs.json"));
  std::vector<std::string> names;
  for (const LayerInfo& layer : made.model.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"tok_embeddings", "layers.0", "layers.1", "layers.2",
                                             "mtp", "norm", "output"}));
  EXPECT_EQ(made.model.num_blocks(), 3);
  EXPECT_EQ(made.model.layers[0].role, LayerRole::kEmbedding);
  EXPECT_EQ(made.model.layers[6].role, LayerRole::kHead);
  EXPECT_EQ(made.times.layers[0].held_bytes, 40);
}

TEST(LayerCostsTest, NamesFileAndKeyOfEveryFault) {
  const auto layers = [](const std::string& list) { return R"({"layers": [)" + list + "]}"; };
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "the file of layer costs is not an object"},
           {"{}", "'layers' is missing"},
           {R"({"layers": []})", "'layers' is not a list with one object per layer"},
           {R"({"layer": []})", "'layer' is not a key of layer costs"},
           {R"({"unit": "min", "layers": [{}]})", "'unit' is \"min\""},
           {layers("3"), "'layers[0]' is not an object"},
           {layers("{}"), "'layers[0]' has neither 'name' nor 'class'"},
           {layers(R"({"name": "a"})"), "'layers[0].F' is missing"},
           {layers(R"({"name": "a", "F": 1})"), "'layers[0].B' is missing"},
           {layers(R"({"name": "a", "F": -1, "B": 1})"), "'layers[0].F' is not a number"},
           {layers(R"({"name": "a", "F": 1e31, "B": 1})"), "'layers[0].F' is 1e+31"},
           {layers(R"({"name": "a", "F": 1, "B": 1, "count": 0})"), "'layers[0].count' is not"},
           {layers(R"({"name": "", "F": 1, "B": 1})"), "'layers[0].name' is not a text"},
           {layers(R"({"name": "a", "F": 1, "B": 1, "bytes": 0})"),
            "'layers[0].bytes' is not a key"},
           {layers(R"({"name": "*", "F": 1, "B": 1}, {"class": "head", "F": 1, "B": 1})"),
            "'layers[1].class' 'head' matches no layer"},
           {layers(R"({"name": "model.layer.*", "F": 1, "B": 1})"),
            "'layers[0].name' 'model.layer.*' matches no layer"},
           {layers(R"({"name": "model.layers.*", "count": 9, "F": 1, "B": 1})"),
            "'layers[0].count' is 9, but the model has only 4 such layers without another entry"},
           {layers(R"({"class": "block", "F": 1, "B": 1})"),
            "'layers' has no entry for 'model.embed_tokens' and 2 more"}}) {
    const Error error = test::error_of([&] { costed(text); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << text;
    EXPECT_EQ(error.where(), "costs.json") << error.what();
    EXPECT_TRUE(error.fact().starts_with(what)) << error.what();
    EXPECT_FALSE(error.remedy().empty()) << error.what();
  }
  for (const auto& [list, what] : std::vector<std::pair<std::string, std::string>>{
           {R"({"class": "block", "F": 1, "B": 1})", "'layers[0].name' is missing"},
           {R"({"name": "layers", "count": 2, "F": 1, "B": 1})",
            "'layers[0].count' needs a '*' in the name 'layers'"},
           {R"({"name": "a", "F": 1, "B": 1}, {"name": "a", "F": 1, "B": 1})",
            "'layers' has 'a' twice"},
           {R"({"name": "norm", "F": 1, "B": 1})", "'layers' has no decoder layer"}}) {
    const Error error = test::error_of(
        [&] { model_of_layer_costs(parse_layer_costs(layers(list), "costs.json")); });
    EXPECT_EQ(error.fact(), what);
    EXPECT_EQ(error.where(), "costs.json");
  }
}

}  // namespace
}  // namespace sluice::layer_costs_test
