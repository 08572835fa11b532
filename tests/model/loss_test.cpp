#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice {
namespace {

at::Tensor some_logits(std::int64_t rows, std::int64_t length, std::int64_t vocab) {
  return at::arange(rows * length * vocab, at::kFloat)
      .mul(0.7)
      .sin()
      .view({rows, length, vocab})
      .requires_grad_();
}

LossValue loss_of(const at::Tensor& logits, const at::Tensor& labels) {
  return causal_lm_loss({{"logits", logits}}, {{"labels", labels}});
}

TEST(CountTokensTest, LeavesOutIgnoredLabelsAndTheFirstOfEachRow) {
  EXPECT_EQ(count_tokens(at::tensor({5, 6, -100, 7, -100, 1, 2, 3}, at::kLong).view({2, 4})), 5);
  EXPECT_EQ(count_tokens(at::full({3, 4}, -100, at::kLong)), 0);
  EXPECT_EQ(count_tokens(at::ones({3, 1}, at::kLong)), 0);
  EXPECT_EQ(count_tokens(at::ones({0, 4}, at::kLong)), 0);
  EXPECT_THROW(count_tokens(at::ones({3}, at::kLong)), Error);
}

TEST(CausalLmLossTest, IsTheSumOverCountedTokensOfTheNextTokensSurprise) {
  const at::Tensor logits = some_logits(2, 4, 5);
  const at::Tensor labels = at::tensor({0, 1, 2, -100, -100, 3, -100, 4}, at::kLong).view({2, 4});
  const LossValue loss = loss_of(logits, labels);
  const at::Tensor log_p = logits.detach().to(at::kDouble).log_softmax(-1);
  double expected = 0;
  for (const auto& [row, position, label] :
       {std::tuple{0, 0, 1}, {0, 1, 2}, {1, 0, 3}, {1, 2, 4}}) {
    expected -= log_p[row][position][label].item<double>();
  }
  EXPECT_EQ(loss.count, 4);
  EXPECT_NEAR(loss.loss.item<double>(), expected, 1e-5);
}

TEST(CausalLmLossTest, OnlyCountedPositionsGetAGradient) {
  const at::Tensor logits = some_logits(1, 4, 5);
  loss_of(logits, at::tensor({0, 1, -100, 2}, at::kLong).view({1, 4})).loss.backward();
  at::Tensor expected = logits.detach().softmax(-1);
  expected[0][0][1] -= 1;
  expected[0][2][2] -= 1;
  expected[0][1].zero_();
  expected[0][3].zero_();
  EXPECT_TRUE(at::allclose(logits.grad(), expected, 1e-5, 1e-6));
}

TEST(CausalLmLossTest, WithoutCountedTokensIsZeroAndCanBeDifferentiated) {
  for (const std::int64_t length : {1, 4}) {
    const at::Tensor logits = some_logits(2, length, 5);
    const LossValue loss = loss_of(logits, at::full({2, length}, -100, at::kLong));
    EXPECT_EQ(loss.count, 0);
    EXPECT_EQ(loss.loss.item<double>(), 0.0);
    loss.loss.backward();
    EXPECT_TRUE(at::equal(logits.grad(), at::zeros_like(logits)));
  }
}

TEST(CausalLmLossTest, DoesNotChangeTheLabels) {
  const at::Tensor labels = at::arange(8, at::kLong).view({2, 4}).remainder(5);
  const at::Tensor before = labels.clone();
  loss_of(some_logits(2, 4, 5), labels);
  EXPECT_TRUE(at::equal(labels, before));
}

TEST(CausalLmLossTest, TakesLabelsOfAnyIntegerType) {
  const at::Tensor labels = at::arange(8, at::kInt).view({2, 4}).remainder(5);
  const at::Tensor logits = some_logits(2, 4, 5);
  EXPECT_TRUE(at::equal(loss_of(logits, labels).loss, loss_of(logits, labels.to(at::kLong)).loss));
}

TEST(CausalLmLossTest, RefusesLabelsOfAnotherShape) {
  try {
    loss_of(some_logits(2, 4, 5), at::zeros({2, 3}, at::kLong));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(
        std::string(error.what()).find("logits are float32[2, 4, 5], but labels are int64[2, 3]"),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace sluice
