// The fields that rows of data have for a graph, and the inputs of it that are tokens.
#include "config/graph_data.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "archive/graph_model.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/graph_builder.h"

namespace sluice::detail {
namespace {

using test::error_of;
using test::GraphBuilder;

// A graph with the result `loss` of these sizes. rows, length: symbols s0 and s1.
ModelSpec model_of(GraphBuilder builder, const std::string& loss,
                   const std::vector<std::string>& sizes, const std::string& count = {}) {
  builder.tensor(loss, sizes);
  GraphArgument value;
  value.kind = GraphArgument::Kind::kValue;
  value.value = builder.find(loss);
  builder.module.outputs.push_back({.name = loss, .value = value});
  auto graph = std::make_shared<GraphOfModel>();
  graph->graph.path = "model.pt2";
  graph->graph.training = std::move(builder.module);
  graph->loss = {.output = loss, .count = count};
  graph->rows_symbol = "s0";
  graph->length_symbol = "s1";
  ModelSpec spec;
  spec.graph = std::move(graph);
  return spec;
}

TEST(GraphDataTest, ACausalGraphTakesTokens) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  ModelSpec model = model_of(builder, "logits", {"s0", "s1", "96"});
  model.vocab_size = 96;
  const GraphData data = data_of_graph(model);
  EXPECT_TRUE(data.tokens);
  EXPECT_TRUE(data.fields.empty());
  EXPECT_FALSE(data.takes_mask);
  EXPECT_FALSE(data.takes_positions);
  EXPECT_EQ(data.count, CountOf::kLabels);
  EXPECT_FALSE(data.counts_by_model);
  EXPECT_EQ(data.vocab_size, 96);
}

TEST(GraphDataTest, MaskAndPositionsAreOfTheTokensAndTheRestAreFields) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("attention_mask", {"s0", "s1"}, "int64");
  builder.batch("position_ids", {"s0", "s1"}, "int32");
  builder.batch("token_type_ids", {"s0", "s1"}, "int64");
  builder.batch("pixel_values", {"s0", "3", "s7"});
  const GraphData data = data_of_graph(model_of(builder, "logits", {"s0", "s1", "96"}));
  EXPECT_TRUE(data.tokens);
  EXPECT_TRUE(data.takes_mask);
  EXPECT_TRUE(data.takes_positions);
  EXPECT_EQ(data.fields, (std::vector<FieldOption>{{"token_type_ids", "int64", {kRowTokens}},
                                                   {"pixel_values", "float32", {3, kAnySize}}}));
}

TEST(GraphDataTest, AMaskOfAnotherShapeIsAField) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("attention_mask", {"s0", "1", "s1", "s1"}, "bool");
  const GraphData data = data_of_graph(model_of(builder, "logits", {"s0", "s1", "96"}));
  EXPECT_FALSE(data.takes_mask);
  EXPECT_EQ(data.fields,
            (std::vector<FieldOption>{{"attention_mask", "bool", {1, kRowTokens, kRowTokens}}}));
}

TEST(GraphDataTest, LabelsOfTheTokensMayBeInTheGraph) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("labels", {"s0", "s1"}, "int64");
  const GraphData rows = data_of_graph(model_of(builder, "loss", {}));
  EXPECT_TRUE(rows.tokens);
  EXPECT_TRUE(rows.fields.empty());
  EXPECT_EQ(rows.count, CountOf::kRows);
  EXPECT_FALSE(rows.counts_by_model);
  EXPECT_TRUE(data_of_graph(model_of(builder, "loss", {}, "count")).counts_by_model);
}

TEST(GraphDataTest, OfOtherLabelsAllInputsAreFields) {
  GraphBuilder image;
  image.batch("pixel_values", {"s0", "3", "8", "8"});
  image.batch("labels", {"s0"}, "int64");
  const GraphData images = data_of_graph(model_of(image, "loss", {}));
  EXPECT_FALSE(images.tokens);
  EXPECT_EQ(images.fields, (std::vector<FieldOption>{{"pixel_values", "float32", {3, 8, 8}},
                                                     {"labels", "int64", {}}}));
  EXPECT_EQ(images.count, CountOf::kRows);

  GraphBuilder translation;
  translation.batch("input_ids", {"s0", "s1"}, "int64");
  translation.batch("labels", {"s0", "s2"}, "int64");
  const GraphData pairs = data_of_graph(model_of(translation, "loss", {}));
  EXPECT_FALSE(pairs.tokens);
  EXPECT_EQ(pairs.fields, (std::vector<FieldOption>{{"input_ids", "int64", {kAnySize}},
                                                    {"labels", "int64", {kAnySize}}}));
}

TEST(GraphDataTest, LogitsOfOtherPlacesThanTheTokensNeedLabelsOfTheirOwn) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("decoder_input_ids", {"s0", "s2"}, "int64");
  const GraphData data = data_of_graph(model_of(builder, "logits", {"s0", "s2", "96"}));
  EXPECT_FALSE(data.tokens);
  EXPECT_EQ(data.fields, (std::vector<FieldOption>{{"input_ids", "int64", {kAnySize}},
                                                   {"decoder_input_ids", "int64", {kAnySize}},
                                                   {"labels", "int64", {kAnySize}, 96, -100}}));
  EXPECT_TRUE(data.counts_by_model);
}

TEST(GraphDataTest, WithoutAConfigurationTheEmbeddingSaysTheVocabulary) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  EXPECT_EQ(data_of_graph(model_of(builder, "logits", {"s0", "s1", "96"})).vocab_size,
            std::numeric_limits<std::int32_t>::max());
  builder.input(GraphInput::Kind::kParameter, "embed.weight", {"77", "8"});
  builder.node("aten.embedding.default",
               {{"weight", test::Value{"embed.weight"}}, {"indices", test::Value{"input_ids"}}},
               {"embedded"});
  EXPECT_EQ(data_of_graph(model_of(builder, "logits", {"s0", "s1", "96"})).vocab_size, 77);
}

// Labels of a token classifier are classes, whatever the vocabulary.
TEST(GraphDataTest, LabelsOfTokensAreBelowTheClassesOfTheirLoss) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("labels", {"s0", "s1"}, "int64");
  builder.batch("segments", {"s0", "s1"}, "int64");
  builder.input(GraphInput::Kind::kParameter, "segment.weight", {"2", "8"});
  builder.tensor("scores", {"s0*s1", "300"});
  builder.tensor("flat", {"s0*s1"}, "int64");
  builder.node("aten.flatten.using_ints", {{"self", test::Value{"labels"}}}, {"flat"});
  builder.node("aten.cross_entropy_loss.default",
               {{"self", test::Value{"scores"}}, {"target", test::Value{"flat"}}}, {"entropy"});
  builder.node("aten.embedding.default",
               {{"weight", test::Value{"segment.weight"}}, {"indices", test::Value{"segments"}}},
               {"embedded"});
  ModelSpec model = model_of(builder, "loss", {});
  model.vocab_size = 96;
  TokenDataOptions options;
  set_rows_of_model(model, options);
  EXPECT_EQ(options.vocab_size, 96);
  EXPECT_EQ(options.num_labels, 300);
  EXPECT_EQ(options.fields, (std::vector<FieldOption>{{"segments", "int64", {kRowTokens}, 2}}));
}

TEST(GraphDataTest, AnInputWithAFirstSizeOfItsOwnHasTheItemsOfTheRows) {
  GraphBuilder builder;
  builder.batch("scale", {"s0", "3"});
  builder.batch("pixel_values", {"s2", "3", "s3"});
  const GraphData data = data_of_graph(model_of(builder, "loss", {}));
  EXPECT_EQ(data.fields.at(1), (FieldOption{.name = "pixel_values",
                                            .dtype = "float32",
                                            .sizes = {kAnySize, 3, kAnySize},
                                            .concatenated = true}));
}

TEST(GraphDataTest, AnInputWithoutRowsIsRefusedByName) {
  for (const std::vector<std::string>& sizes :
       {std::vector<std::string>{}, std::vector<std::string>{"5", "s0"}}) {
    GraphBuilder builder;
    builder.batch("pixel_values", {"s0", "3"});
    builder.batch("scale", sizes);
    const Error error = error_of([&] { data_of_graph(model_of(builder, "loss", {})); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.fact(), "the input 'scale' of the graph is [" +
                                std::string(sizes.empty() ? "" : "5, s0") +
                                "], which has no dimension of rows, so that rows of data cannot "
                                "give it");
    EXPECT_EQ(error.where(), "model.pt2");
  }
}

TEST(GraphDataTest, SetsTheOptionsOfData) {
  TokenDataOptions native;
  set_rows_of_model(ModelSpec(), native);
  EXPECT_TRUE(native.tokens);
  EXPECT_TRUE(native.takes_mask);
  EXPECT_FALSE(native.masks_padding);

  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("attention_mask", {"s0", "s1"}, "int64");
  TokenDataOptions options;
  set_rows_of_model(model_of(builder, "logits", {"s0", "s1", "96"}), options);
  EXPECT_TRUE(options.tokens);
  EXPECT_TRUE(options.takes_mask);
  EXPECT_TRUE(options.masks_padding);
  EXPECT_FALSE(options.takes_positions);
  EXPECT_EQ(options.count, CountOf::kLabels);
}

}  // namespace
}  // namespace sluice::detail
