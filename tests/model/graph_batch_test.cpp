#include "model/graph_batch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "sluice/error.h"
#include "support/expect_error.h"

namespace sluice::detail {
namespace {

using test::error_of;

constexpr std::int64_t kRows = kMicrobatchRows, kLength = kMicrobatchLength;

TokenRows image_rows() {
  TokenRows rows;
  rows.num_rows = 4;
  FieldRows images{{"image", "float32", {2, kAnySize}}, {}}, labels{{"label", "int64", {}}, {}};
  for (int row = 0; row < 4; ++row) {
    std::vector<float> numbers;
    for (int i = 0; i < 6; ++i) numbers.push_back(static_cast<float>(10 * row + i));
    images.rows.push_back({{2, 3}, numbers});
    labels.rows.push_back({{}, std::vector<std::int64_t>{row}});
  }
  rows.fields = {images, labels};
  return rows;
}

TokenRows token_rows() {
  TokenRows rows;
  rows.num_rows = 2;
  rows.seq_len = 3;
  rows.ids = {1, 2, 3, 4, 5, 0};
  rows.labels = {1, 2, 3, 4, 5, -100};
  return rows;
}

const std::vector<ValueSpec> kImageInputs = {{"label", {kRows}, "int64"},
                                             {"image", {kRows, 2, 3}, "bfloat16"}};
const std::vector<ValueSpec> kTokenInputs = {{"input_ids", {kRows, kLength}, "int32"},
                                             {"attention_mask", {kRows, kLength}, "bool"},
                                             {"position_ids", {kRows, kLength}, "int64"},
                                             {"labels", {kRows, kLength}, "int64"}};

TEST(GraphBatchTest, FieldsAreTensorsOfTheGraphsTypes) {
  const Values values = graph_inputs(image_rows(), 1, 2, kImageInputs);
  ASSERT_EQ(values.size(), 2U);
  EXPECT_TRUE(at::equal(values["label"], at::tensor({1, 2}, at::kLong)));
  const at::Tensor expected =
      at::arange(6, at::kFloat).add(at::tensor({10.F, 20.F}).unsqueeze(1)).view({2, 2, 3});
  EXPECT_EQ(values["image"].scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(values["image"], expected.to(at::kBFloat16)));
}

TokenRows rows_with_images() {
  TokenRows rows;
  rows.num_rows = 3;
  FieldRows images{
      {.name = "image", .dtype = "float32", .sizes = {kAnySize, 2}, .concatenated = true}, {}};
  images.rows = {{{1, 2}, std::vector<float>{1, 2}},
                 {{0, 0}, std::vector<float>{}},
                 {{2, 2}, std::vector<float>{3, 4, 5, 6}}};
  rows.fields = {images};
  return rows;
}

TEST(GraphBatchTest, AMicrobatchHasTheImagesOfItsRowsOneAfterTheOther) {
  const std::vector<ValueSpec> inputs = {{"image", {3, 2}, "float32"}};
  const auto images = [&](std::int64_t first, std::int64_t count) {
    return graph_inputs(rows_with_images(), first, count, inputs)["image"];
  };
  EXPECT_TRUE(at::equal(images(0, 3), at::arange(1, 7, at::kFloat).view({3, 2})));
  EXPECT_TRUE(at::equal(images(1, 2), at::arange(3, 7, at::kFloat).view({2, 2})));
  EXPECT_EQ(images(1, 1).size(0), 0);
  TokenRows other = rows_with_images();
  other.fields[0].rows[2] = {{1, 3}, std::vector<float>{3, 4, 5}};
  EXPECT_EQ(error_of([&] { graph_inputs(other, 0, 3, inputs); }).fact(),
            "'image' is [1, 2] and [1, 3] in two rows of a microbatch");
}

TEST(GraphBatchTest, MaskAndPositionsThatRowsLeaveOutAreThoseOfPlainRows) {
  const Values values = graph_inputs(token_rows(), 0, 2, kTokenInputs);
  EXPECT_TRUE(
      at::equal(values["input_ids"], at::tensor({1, 2, 3, 4, 5, 0}, at::kInt).view({2, 3})));
  EXPECT_TRUE(at::equal(values["attention_mask"], at::ones({2, 3}, at::kBool)));
  EXPECT_TRUE(
      at::equal(values["position_ids"], at::tensor({0, 1, 2, 0, 1, 2}, at::kLong).view({2, 3})));
  EXPECT_TRUE(
      at::equal(values["labels"], at::tensor({1, 2, 3, 4, 5, -100}, at::kLong).view({2, 3})));
}

TEST(GraphBatchTest, MaskAndPositionsOfRowsAreTheirs) {
  TokenRows rows = token_rows();
  rows.attention_mask = {1, 1, 1, 1, 1, 0};
  rows.position_ids = {0, 0, 1, 0, 1, 2};
  const Values values = graph_inputs(rows, 0, 2, kTokenInputs);
  EXPECT_TRUE(at::equal(values["attention_mask"],
                        at::tensor({1, 1, 1, 1, 1, 0}, at::kLong).view({2, 3}).to(at::kBool)));
  EXPECT_TRUE(
      at::equal(values["position_ids"], at::tensor({0, 0, 1, 0, 1, 2}, at::kLong).view({2, 3})));
}

TEST(GraphBatchTest, FieldsOfTheTokensAreAsLongAsTheMicrobatch) {
  TokenRows rows = token_rows();
  rows.lengths = {2, 1};
  rows.fields = {{{"types", "int64", {2, kRowTokens}},
                  {{{2, 3}, std::vector<std::int64_t>{1, 2, 0, 3, 4, 0}},
                   {{2, 3}, std::vector<std::int64_t>{5, 0, 0, 6, 0, 0}}}}};
  const std::vector<ValueSpec> inputs = {{"input_ids", {kRows, kLength}, "int64"},
                                         {"types", {kRows, 2, kLength}, "int64"}};
  const Values both = graph_inputs(rows, 0, 2, inputs);
  EXPECT_TRUE(
      at::equal(both["types"], at::tensor({1, 2, 3, 4, 5, 0, 6, 0}, at::kLong).view({2, 2, 2})));
  const Values second = graph_inputs(rows, 1, 1, inputs);
  EXPECT_TRUE(at::equal(second["types"], at::tensor({5, 6}, at::kLong).view({1, 2, 1})));
  EXPECT_EQ(second["input_ids"].size(1), 1);
}

TEST(GraphBatchTest, RefusesInputsThatRowsDoNotGiveAndUnequalSizes) {
  const Error missing = error_of([] {
    graph_inputs(image_rows(), 0, 1, {{"attention_mask", {kRows, kLength}, "int64"}});
  });
  EXPECT_EQ(missing.kind(), ErrorKind::kInput);
  EXPECT_EQ(missing.fact(), "the rows have no 'attention_mask', an input of the graph");
  EXPECT_EQ(missing.where(), "they have image, label");
  TokenRows uneven = image_rows();
  uneven.fields[0].rows[3] = {{1, 6}, std::vector<float>(6)};
  EXPECT_EQ(graph_inputs(uneven, 3, 1, kImageInputs)["image"].sizes(), at::IntArrayRef({1, 1, 6}));
  EXPECT_EQ(error_of([&] { graph_inputs(uneven, 2, 2, kImageInputs); }).fact(),
            "'image' is [2, 3] and [1, 6] in two rows of a microbatch");
}

TEST(GraphBatchTest, TheModelSaysHowMuchEachMicrobatchCounts) {
  auto spec = std::make_shared<ModelSpec>();
  spec->inputs = kImageInputs;
  Model model;
  model.description = spec;
  model.count = [](const Values& batch) { return batch["label"].sum().item<std::int64_t>() + 1; };
  const StepBatch batch = graph_batch(StepShare{image_rows(), 40}, model, 6, 3, 9);
  EXPECT_EQ(batch.step, 9);
  EXPECT_EQ(batch.first_microbatch, 2);
  EXPECT_EQ(batch.counts, (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(batch.total_count, 40);
  ASSERT_EQ(batch.microbatches.size(), 2U);
  EXPECT_TRUE(at::equal(batch.microbatches.at(0)["label"], at::tensor({0, 1, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(batch.microbatches.at(1)["label"], at::tensor({3}, at::kLong)));
}

TEST(GraphBatchTest, MadeUpNumbersHaveTheSizesAndTypesOfTheInputs) {
  ModelSpec spec;
  spec.vocab_size = 11;
  spec.inputs = {
      {"input_ids", {kRows, kLength}, "int64"},    {"attention_mask", {kRows, kLength}, "int64"},
      {"position_ids", {kRows, kLength}, "int32"}, {"labels", {kRows}, "int64"},
      {"image", {kRows, 3, 4}, "float32"},         {"flags", {kRows}, "bool"}};
  const Values values = made_up_inputs(spec, {2, 5});
  for (const ValueSpec& input : spec.inputs) {
    EXPECT_EQ(values[input.name].sizes().vec(), input.sizes_at({2, 5})) << input.name;
    EXPECT_EQ(dtype_name(values[input.name].scalar_type()), input.dtype);
  }
  EXPECT_GE(values["input_ids"].min().item<std::int64_t>(), 0);
  EXPECT_LT(values["input_ids"].max().item<std::int64_t>(), 11);
  EXPECT_GT(std::get<0>(at::_unique(values["input_ids"])).numel(), 5);
  EXPECT_EQ(values["attention_mask"].min().item<std::int64_t>(), 1);
  EXPECT_TRUE(at::equal(values["position_ids"][1], at::arange(5, at::kInt)));
  EXPECT_EQ(values["labels"].abs().max().item<std::int64_t>(), 0);
  EXPECT_GT(values["image"].std().item<double>(), 0.1);
  EXPECT_TRUE(values["flags"].all().item<bool>());
}

}  // namespace
}  // namespace sluice::detail
