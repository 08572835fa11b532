#include "archive/graph_rows.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/graph_builder.h"

namespace sluice::detail {
namespace {

using test::error_of;
using test::GraphBuilder;

// Returns the row needs of a graph whose result `loss` has these sizes. The symbols s0 and s1 are
// the rows and the length.
RowNeeds rows_of(GraphBuilder builder, const std::string& loss,
                 const std::vector<std::string>& sizes, const std::string& count = {},
                 std::int64_t vocab_size = 0) {
  builder.tensor(loss, sizes);
  GraphArgument value;
  value.kind = GraphArgument::Kind::kValue;
  value.value = builder.find(loss);
  builder.module.outputs.push_back({.name = loss, .value = value});
  GraphOfModel graph;
  graph.graph.path = "model.pt2";
  graph.graph.training = std::move(builder.module);
  graph.loss = {.output = loss, .count = count};
  graph.rows_symbol = "s0";
  graph.length_symbol = "s1";
  return rows_of_graph(graph, vocab_size);
}

TEST(GraphRowsTest, ACausalGraphTakesTokens) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  const RowNeeds data = rows_of(builder, "logits", {"s0", "s1", "96"}, /*count=*/"", 96);
  EXPECT_TRUE(data.tokens);
  EXPECT_TRUE(data.fields.empty());
  EXPECT_FALSE(data.takes_mask);
  EXPECT_FALSE(data.takes_positions);
  EXPECT_EQ(data.count, CountOf::kLabels);
  EXPECT_FALSE(data.counts_by_model);
  EXPECT_EQ(data.vocab_size, 96);
}

TEST(GraphRowsTest, MaskAndPositionsAreOfTheTokensAndTheRestAreFields) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("attention_mask", {"s0", "s1"}, "int64");
  builder.batch("position_ids", {"s0", "s1"}, "int32");
  builder.batch("token_type_ids", {"s0", "s1"}, "int64");
  builder.batch("pixel_values", {"s0", "3", "s7"});
  const RowNeeds data = rows_of(builder, "logits", {"s0", "s1", "96"});
  EXPECT_TRUE(data.tokens);
  EXPECT_TRUE(data.takes_mask);
  EXPECT_TRUE(data.takes_positions);
  EXPECT_EQ(data.fields, (std::vector<FieldOption>{{"token_type_ids", "int64", {kRowTokens}},
                                                   {"pixel_values", "float32", {3, kAnySize}}}));
}

TEST(GraphRowsTest, AMaskOfAnotherShapeIsAField) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("attention_mask", {"s0", "1", "s1", "s1"}, "bool");
  const RowNeeds data = rows_of(builder, "logits", {"s0", "s1", "96"});
  EXPECT_FALSE(data.takes_mask);
  EXPECT_EQ(data.fields,
            (std::vector<FieldOption>{{"attention_mask", "bool", {1, kRowTokens, kRowTokens}}}));
}

TEST(GraphRowsTest, LabelsOfTheTokensMayBeInTheGraph) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("labels", {"s0", "s1"}, "int64");
  const RowNeeds rows = rows_of(builder, "loss", {});
  EXPECT_TRUE(rows.tokens);
  EXPECT_TRUE(rows.fields.empty());
  EXPECT_EQ(rows.count, CountOf::kRows);
  EXPECT_FALSE(rows.counts_by_model);
  EXPECT_TRUE(rows_of(builder, "loss", {}, "count").counts_by_model);
}

TEST(GraphRowsTest, OfOtherLabelsAllInputsAreFields) {
  GraphBuilder image;
  image.batch("pixel_values", {"s0", "3", "8", "8"});
  image.batch("labels", {"s0"}, "int64");
  const RowNeeds images = rows_of(image, "loss", {});
  EXPECT_FALSE(images.tokens);
  EXPECT_EQ(images.fields, (std::vector<FieldOption>{{"pixel_values", "float32", {3, 8, 8}},
                                                     {"labels", "int64", {}}}));
  EXPECT_EQ(images.count, CountOf::kRows);

  GraphBuilder translation;
  translation.batch("input_ids", {"s0", "s1"}, "int64");
  translation.batch("labels", {"s0", "s2"}, "int64");
  const RowNeeds pairs = rows_of(translation, "loss", {});
  EXPECT_FALSE(pairs.tokens);
  EXPECT_EQ(pairs.fields, (std::vector<FieldOption>{{"input_ids", "int64", {kAnySize}},
                                                    {"labels", "int64", {kAnySize}}}));
}

TEST(GraphRowsTest, RequiresLabelsFieldIfLogitsDoNotMatchTokens) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("decoder_input_ids", {"s0", "s2"}, "int64");
  const RowNeeds data = rows_of(builder, "logits", {"s0", "s2", "96"});
  EXPECT_FALSE(data.tokens);
  EXPECT_EQ(data.fields, (std::vector<FieldOption>{{"input_ids", "int64", {kAnySize}},
                                                   {"decoder_input_ids", "int64", {kAnySize}},
                                                   {"labels", "int64", {kAnySize}, 96, -100}}));
  EXPECT_TRUE(data.counts_by_model);
}

TEST(GraphRowsTest, DerivesVocabularySizeFromEmbedding) {
  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  EXPECT_EQ(rows_of(builder, "logits", {"s0", "s1", "96"}).vocab_size,
            std::numeric_limits<std::int32_t>::max());
  builder.input(GraphInput::Kind::kParameter, "embed.weight", {"77", "8"});
  builder.node("aten.embedding.default",
               {{"weight", test::Value{"embed.weight"}}, {"indices", test::Value{"input_ids"}}},
               {"embedded"});
  EXPECT_EQ(rows_of(builder, "logits", {"s0", "s1", "96"}).vocab_size, 77);
}

// Labels of a token classifier are class numbers, so the vocabulary does not limit them.
TEST(GraphRowsTest, LabelsOfTokensAreBelowTheClassesOfTheirLoss) {
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
  TokenDataOptions options;
  set_row_needs(rows_of(builder, "loss", {}, /*count=*/"", 96), options);
  EXPECT_EQ(options.vocab_size, 96);
  EXPECT_EQ(options.num_labels, 300);
  EXPECT_EQ(options.fields, (std::vector<FieldOption>{{"segments", "int64", {kRowTokens}, 2}}));
}

TEST(GraphRowsTest, AnInputWithAFirstSizeOfItsOwnHasTheItemsOfTheRows) {
  GraphBuilder builder;
  builder.batch("scale", {"s0", "3"});
  builder.batch("pixel_values", {"s2", "3", "s3"});
  const RowNeeds data = rows_of(builder, "loss", {});
  EXPECT_EQ(data.fields.at(1), (FieldOption{.name = "pixel_values",
                                            .dtype = "float32",
                                            .sizes = {kAnySize, 3, kAnySize},
                                            .concatenated = true}));
}

TEST(GraphRowsTest, AnInputWithoutRowsIsRefusedByName) {
  for (const std::vector<std::string>& sizes :
       {std::vector<std::string>{}, std::vector<std::string>{"5", "s0"}}) {
    GraphBuilder builder;
    builder.batch("pixel_values", {"s0", "3"});
    builder.batch("scale", sizes);
    const Error error = error_of([&] { rows_of(builder, "loss", {}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.fact(), "the input 'scale' of the graph is [" +
                                std::string(sizes.empty() ? "" : "5, s0") +
                                "] without a dimension of rows, so data cannot provide it");
    EXPECT_EQ(error.where(), "model.pt2");
  }
}

TEST(GraphRowsTest, SetsTheOptionsOfData) {
  TokenDataOptions native;
  set_row_needs(RowNeeds(), native);
  EXPECT_TRUE(native.tokens);
  EXPECT_TRUE(native.takes_mask);
  EXPECT_FALSE(native.masks_padding);

  GraphBuilder builder;
  builder.batch("input_ids", {"s0", "s1"}, "int64");
  builder.batch("attention_mask", {"s0", "s1"}, "int64");
  TokenDataOptions options;
  set_row_needs(rows_of(builder, "logits", {"s0", "s1", "96"}), options);
  EXPECT_TRUE(options.tokens);
  EXPECT_TRUE(options.takes_mask);
  EXPECT_TRUE(options.masks_padding);
  EXPECT_FALSE(options.takes_positions);
  EXPECT_EQ(options.count, CountOf::kLabels);
}

}  // namespace
}  // namespace sluice::detail
