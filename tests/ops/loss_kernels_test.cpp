// Cross-entropy against the same in float64: a probability is off by a few units in the last place
// of itself, and of the logits' distance from the largest.
#include "ops/kernel_support.h"

namespace sluice::ops {
namespace {

struct Exact {
  double loss = 0;
  std::vector<double> gradient;
};

Exact reference(Index rows, Index classes, const std::vector<float>& logits,
                const std::vector<std::int64_t>& labels, double scale) {
  Exact exact;
  exact.gradient.resize(logits.size());
  for (Index row = 0; row < rows; ++row) {
    if (labels[row] < 0) continue;
    const float* const z = &logits[row * classes];
    const double top = *std::max_element(z, z + classes);
    double total = 0;
    for (Index i = 0; i < classes; ++i) total += std::exp(z[i] - top);
    for (Index i = 0; i < classes; ++i)
      exact.gradient[row * classes + i] =
          scale * (std::exp(z[i] - top) / total - (i == labels[row] ? 1 : 0));
    exact.loss += std::log(total) + top - z[labels[row]];
  }
  return exact;
}

using LossKernelTest = KernelTest;
SLUICE_AT_EVERY_LEVEL(LossKernelTest);

TEST_P(LossKernelTest, IsNearFloat64AtEveryNumberOfClasses) {
  for (const Index classes : {1, 2, 7, 16, 33, 64, 688, 4096, 32003}) {
    for (const Place place : {Place::kEnd, Place::kOdd}) {
      const Index rows = 4;
      const auto values = random_floats(rows * classes, 1, 4);
      const std::vector<std::int64_t> labels = {0, classes - 1, -100, classes / 2};
      const Exact exact = reference(rows, classes, values, labels, 0.25);
      Memory logits(values, place);
      const double value =
          kernels_.cross_entropy_value(rows, classes, logits.data(), labels.data());
      EXPECT_TRUE(same_bits(logits.values(), values));
      const double loss =
          kernels_.cross_entropy(rows, classes, logits.data(), labels.data(), 0.25f);
      EXPECT_EQ(value, loss);
      EXPECT_NEAR(loss, exact.loss, 1e-6 * std::max(1.0, exact.loss)) << classes;
      EXPECT_LT(distance(logits.values(), exact.gradient), 2e-6) << classes;
    }
  }
}

TEST_P(LossKernelTest, CountsNoRowWhoseLabelIsBelowZero) {
  auto logits = random_floats(Index{2 * 33}, 1);
  const std::vector<std::int64_t> labels = {-1, -100};
  EXPECT_EQ(kernels_.cross_entropy_value(2, 33, logits.data(), labels.data()), 0);
  EXPECT_EQ(kernels_.cross_entropy(2, 33, logits.data(), labels.data(), 1), 0);
  for (const float value : logits) EXPECT_EQ(value, 0);
}

TEST_P(LossKernelTest, StaysFiniteFarFromZero) {
  const std::vector<std::int64_t> labels = {0, 1, 2};
  const std::vector<float> values = {1e30f, -1e30f, 0, 2000, 2001, 1e4f, -3e38f, 3e38f, 88};
  const Exact exact = reference(3, 3, values, labels, 1);
  auto logits = values;
  const double loss = kernels_.cross_entropy(3, 3, logits.data(), labels.data(), 1);
  EXPECT_NEAR(loss / exact.loss, 1, 1e-6);
  EXPECT_LT(distance(logits, exact.gradient), 1e-6);
}

TEST_P(LossKernelTest, TakesLogitsOfMinusInfinity) {
  const std::vector<std::int64_t> labels = {1};
  std::vector<float> logits(40, -INFINITY);
  logits[1] = 3;
  logits[39] = 3;
  EXPECT_NEAR(kernels_.cross_entropy(1, 40, logits.data(), labels.data(), 1), std::log(2.0), 1e-7);
  EXPECT_NEAR(logits[1], -0.5, 1e-7);
  EXPECT_EQ(logits[0], 0);
}

TEST_P(LossKernelTest, HandsOnWhatIsNoNumber) {
  const std::vector<std::int64_t> labels = {1};
  for (const float value : {NAN, INFINITY}) {
    std::vector<float> logits(20, 1);
    logits[5] = value;
    EXPECT_TRUE(std::isnan(kernels_.cross_entropy(1, 20, logits.data(), labels.data(), 1)));
  }
}

}  // namespace
}  // namespace sluice::ops
