#include "model/attention_inputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "support/expect_error.h"

namespace sluice {
namespace {

using Unseen = AttentionInputs::Unseen;

at::Tensor rows(std::vector<std::vector<std::int64_t>> values) {
  std::vector<at::Tensor> rows;
  for (const auto& row : values) rows.push_back(at::tensor(row, at::kLong));
  return at::stack(rows);
}

at::Tensor queries(std::int64_t batch, std::int64_t length, at::ScalarType dtype = at::kFloat) {
  return at::zeros({batch, 2, length, 4}, dtype);
}

// Draws the mask of one row of the batch, a line per query. "X" marks a visible token.
std::vector<std::string> picture(const at::Tensor& mask, std::int64_t row) {
  std::vector<std::string> lines;
  const at::Tensor of_row = mask[mask.size(0) == 1 ? 0 : row][0];
  for (std::int64_t q = 0; q < of_row.size(0); ++q) {
    std::string& line = lines.emplace_back();
    for (std::int64_t k = 0; k < of_row.size(1); ++k)
      line += of_row[q][k].item<double>() == 0.0 ? 'X' : '.';
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(AttentionInputsTest, NothingIsAddedWhereCausalAttentionSaysItAll) {
  AttentionInputs inputs;
  const at::Tensor q = queries(2, 4);
  EXPECT_FALSE(inputs.mask({}, q, {}).defined());
  EXPECT_FALSE(inputs.mask({}, q, {.window = 4}).defined());
  const at::Tensor ones = at::ones({2, 4}, at::kLong);
  EXPECT_FALSE(inputs.mask({ones, {}}, q, {}).defined());
  const at::Tensor far = rows({{0, 1, 2, 3}, {7, 8, 9, 10}});
  EXPECT_FALSE(inputs.mask({{}, far}, q, {.window = 9}).defined());
  EXPECT_TRUE(inputs.mask({}, q, {.window = 3}).defined());
  EXPECT_TRUE(inputs.mask({}, q, {.unseen = Unseen::kLeast, .always = true}).defined());
}

TEST(AttentionInputsTest, AWindowHoldsATokenAndThoseJustBeforeIt) {
  AttentionInputs inputs;
  const Lines expected = {"X...", "XX..", ".XX.", "..XX"};
  EXPECT_EQ(picture(inputs.mask({}, queries(2, 4), {.window = 2}), 1), expected);
}

TEST(AttentionInputsTest, NoTokenSeesOneThatIsMasked) {
  AttentionInputs inputs;
  const at::Tensor mask = rows({{0, 0, 1, 1}, {1, 1, 0, 1}});
  const at::Tensor added = inputs.mask({mask, {}}, queries(2, 4), {});
  EXPECT_EQ(picture(added, 0), (Lines{"....", "....", "..X.", "..XX"}));
  EXPECT_EQ(picture(added, 1), (Lines{"X...", "XX..", "XX..", "XX.X"}));
  EXPECT_EQ(added.min().item<double>(), -std::numeric_limits<double>::infinity());
  const at::Tensor windowed = inputs.mask({mask, {}}, queries(2, 4), {.window = 2});
  EXPECT_EQ(picture(windowed, 1), (Lines{"X...", "XX..", ".X..", "...X"}));
}

TEST(AttentionInputsTest, DocumentsBeginWherePositionsDoNotGoOn) {
  AttentionInputs inputs;
  const at::Tensor positions = rows({{0, 1, 0, 1}, {4, 5, 6, 6}});
  const at::Tensor added = inputs.mask({{}, positions}, queries(2, 4), {});
  EXPECT_EQ(picture(added, 0), (Lines{"X...", "XX..", "..X.", "..XX"}));
  EXPECT_EQ(picture(added, 1), (Lines{"X...", "XX..", "XXX.", "...X"}));
}

TEST(AttentionInputsTest, WithAMaskPositionsSayNothingOfDocuments) {
  AttentionInputs inputs;
  const at::Tensor mask = rows({{0, 1, 1, 1}}), positions = rows({{1, 0, 0, 1}});
  EXPECT_EQ(picture(inputs.mask({mask, positions}, queries(1, 4), {}), 0),
            (Lines{"....", ".X..", ".XX.", ".XXX"}));
}

TEST(AttentionInputsTest, TheLeastNumberIsThatOfTheType) {
  AttentionInputs inputs;
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const at::Tensor added =
        inputs.mask({}, queries(1, 3, dtype), {.unseen = Unseen::kLeast, .always = true});
    EXPECT_EQ(added.scalar_type(), dtype);
    const double least = added.min().item<double>();
    EXPECT_TRUE(std::isfinite(least));
    EXPECT_LT(least, -65000.0);
  }
}

TEST(AttentionInputsTest, AMaskIsMadeOnceForAMicrobatchWhateverViewOfItIsGiven) {
  AttentionInputs inputs;
  const at::Tensor mask = rows({{0, 1, 1}}), other = rows({{0, 1, 1}}), q = queries(1, 3);
  const at::Tensor first = inputs.mask({mask, {}}, q, {});
  EXPECT_TRUE(inputs.mask({mask, {}}, q, {}).is_same(first));
  EXPECT_TRUE(inputs.mask({mask.detach(), {}}, q, {}).is_same(first));
  EXPECT_FALSE(inputs.mask({other, {}}, q, {}).is_same(first));
  EXPECT_FALSE(inputs.mask({mask, {}}, q, {.window = 2}).is_same(first));
  // `first` is still in use, so it is found again after another microbatch.
  EXPECT_TRUE(inputs.mask({mask, {}}, q, {}).is_same(first));
}

TEST(AttentionInputsTest, OnlyTheLastMicrobatchIsHeldWithoutUsers) {
  AttentionInputs inputs;
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  const at::Tensor q = queries(1, 3);
  std::vector<at::Tensor> masks;
  std::vector<Weak> made;
  for (int microbatch = 0; microbatch < 3; ++microbatch) {
    masks.push_back(rows({{0, 1, 1}}));
    made.emplace_back(inputs.mask({masks.back(), {}}, q, {}).getIntrusivePtr());
    EXPECT_FALSE(made.back().expired());
  }
  EXPECT_TRUE(made[0].expired());
  EXPECT_TRUE(made[1].expired());
  EXPECT_EQ(picture(inputs.mask({masks[0], {}}, q, {}), 0), (Lines{"...", ".X.", ".XX"}));
}

// Two ranks run as threads. Each has its own last microbatch, and both share the table of a window.
TEST(AttentionInputsTest, ThreadsMayAskAtOnce) {
  AttentionInputs inputs({std::make_shared<RotaryTable>(4, detail::RopeConfig())});
  const at::Tensor common = rows({{0, 0, 1, 1, 1, 1}});
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      for (int step = 0; step < 200; ++step) {
        const std::int64_t length = 3 + (step + rank) % 4;
        const at::Tensor own = at::ones({1, length}, at::kLong);
        own[0][0] = 0;
        const at::Tensor q = queries(1, length);
        const Lines padded = picture(inputs.mask({own, {}}, q, {.window = 2}), 0);
        const Lines window = picture(inputs.mask({}, q, {.window = 2}), 0);
        const Lines shared = picture(inputs.mask({common, {}}, queries(1, 6), {}), 0);
        wrong[rank] += padded[0][0] != '.' || padded[2].substr(0, 3) != ".XX";
        wrong[rank] += window[0][0] != 'X' || window.size() != static_cast<std::size_t>(length);
        wrong[rank] += shared[5] != "..XXXX";
        wrong[rank] += inputs.rotary(0, own, length, at::kCPU).first.size(2) != length;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(AttentionInputsTest, PositionsHaveTheAnglesOfTheTable) {
  AttentionInputs inputs({std::make_shared<RotaryTable>(6, detail::RopeConfig{.theta = 50.0})});
  const auto [cos_LR, sin_LR] = inputs.rotary(0, {}, 40, at::kCPU);
  const at::Tensor positions = rows({{5, 6, 39}, {0, 0, 17}});
  const auto [cos, sin] = inputs.rotary(0, positions, 3, at::kCPU);
  ASSERT_EQ(cos.sizes(), (std::vector<std::int64_t>{2, 1, 3, 3}));
  EXPECT_TRUE(at::equal(cos.squeeze(1), cos_LR.index({positions})));
  EXPECT_TRUE(at::equal(sin.squeeze(1), sin_LR.index({positions})));
}

TEST(AttentionInputsTest, OtherSizesThanThoseOfTheIdsAreRefused) {
  AttentionInputs inputs;
  const at::Tensor short_mask = at::zeros({2, 3}, at::kLong);
  EXPECT_EQ(test::message_of([&] {
              inputs.mask({short_mask, {}}, queries(2, 4), {});
            }),
            "attention_mask is int64[2, 3], but the batch has 2 rows of 4 tokens; values of the "
            "batch; give it the "
            "sizes of input_ids");
  const at::Tensor few = at::zeros({1, 4}, at::kLong);
  EXPECT_NE(test::message_of([&] {
              inputs.mask({{}, few}, queries(2, 4), {});
            }).find("position_ids is int64[1, 4]"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice
