#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sluice/causal_lm.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

TokenRows counting_rows(std::int64_t num_rows, std::int64_t seq_len) {
  TokenRows rows{num_rows, seq_len, std::vector<std::int32_t>(std::size_t(num_rows * seq_len)), {}};
  std::iota(rows.ids.begin(), rows.ids.end(), 0);
  rows.labels = rows.ids;
  return rows;
}

TEST(CausalLmBatchTest, KeepsRowsInOrderAndCountsShiftedLabels) {
  TokenRows rows = counting_rows(5, 3);
  for (std::size_t i = 3; i < 6; ++i) rows.labels[i] = -100;
  // no token predicts the first token of a row
  for (std::size_t i = 0; i < 15; i += 3) rows.labels[i] = -100;
  const StepBatch parts = causal_lm_batch(rows, 2, 9);
  EXPECT_EQ(parts.step, 9);
  EXPECT_EQ(parts.counts, (std::vector<std::int64_t>{2, 4, 2}));
  ASSERT_EQ(parts.microbatches.size(), 3u);
  std::vector<at::Tensor> ids, labels;
  for (std::size_t m = 0; m < parts.microbatches.size(); ++m) {
    const Values microbatch = parts.microbatches.at(m);
    ids.push_back(microbatch.get("input_ids"));
    labels.push_back(microbatch.get("labels"));
    EXPECT_EQ(parts.counts[m], count_tokens(labels.back()));
  }
  EXPECT_EQ(ids.front().sizes(), (at::IntArrayRef{2, 3}));
  EXPECT_EQ(ids.back().sizes(), (at::IntArrayRef{1, 3}));
  EXPECT_TRUE(at::cat(ids).equal(at::arange(15, at::kLong).view({5, 3})));
  EXPECT_TRUE(at::cat(labels).equal(at::tensor(rows.labels, at::kLong).view({5, 3})));
}

TEST(CausalLmBatchTest, AMicrobatchHasTensorsOfItsOwnSizeWhereverItIsUsed) {
  const StepBatch parts = causal_lm_batch(counting_rows(7, 4), 2, 3);
  ASSERT_EQ(parts.microbatches.size(), 4u);
  for (std::size_t m = 0; m < 4; ++m) {
    for (const char* name : {"input_ids", "labels"}) {
      const at::Tensor tensor = parts.microbatches.at(m).get(name);
      EXPECT_EQ(tensor.scalar_type(), at::kLong);
      EXPECT_EQ(tensor.storage().nbytes(), static_cast<std::size_t>(tensor.numel()) * 8);
      EXPECT_NE(tensor.data_ptr(), parts.microbatches.at(m).get(name).data_ptr());
    }
  }
}

TEST(CausalLmBatchTest, HasPositionsAndMaskOnlyWhereItsOwnRowsNeedThem) {
  TokenRows rows = counting_rows(4, 3);
  rows.position_ids = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 1};
  rows.attention_mask = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const StepBatch parts = causal_lm_batch(rows, 2, 1);
  const Values first = parts.microbatches.at(0), second = parts.microbatches.at(1);
  EXPECT_FALSE(first.get("position_ids").defined());
  EXPECT_TRUE(first.get("attention_mask").defined());
  EXPECT_FALSE(second.get("attention_mask").defined());
  EXPECT_TRUE(
      second.get("position_ids").equal(at::tensor({0, 1, 2, 0, 0, 1}, at::kLong).view({2, 3})));
}

TEST(CausalLmBatchTest, OfAReplicaItsMicrobatchesAreNumberedAmongAll) {
  const StepBatch parts = causal_lm_batch(StepShare{counting_rows(4, 3), 99}, 8, 2, 5);
  EXPECT_EQ(parts.step, 5);
  EXPECT_EQ(parts.first_microbatch, 4);
  EXPECT_EQ(parts.total_count, 99);
  EXPECT_EQ(parts.counts, (std::vector<std::int64_t>{4, 4}));
}

TEST(CausalLmBatchTest, RefusesMicrobatchesOfNoRowAndCountsNothingInRowsOfOneToken) {
  EXPECT_EQ(test::error_of([] { causal_lm_batch(counting_rows(5, 3), 0, 1); }).kind(),
            ErrorKind::kUsage);
  EXPECT_EQ(causal_lm_batch(counting_rows(2, 1), 2, 1).counts, std::vector<std::int64_t>{0});
}

}  // namespace
}  // namespace sluice
