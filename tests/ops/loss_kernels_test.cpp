// Compares cross-entropy with float64. The relative error of a probability is a few units in the
// last place, plus that of the logit's distance from the largest logit.
#include "ops/kernel_support.h"

namespace sluice::ops {
namespace {

struct ExactLoss {
  double loss = 0;
  std::vector<double> gradient;
};

ExactLoss reference(Index rows, Index classes, const std::vector<float>& logits,
                    const std::vector<std::int64_t>& labels, double scale) {
  ExactLoss exact;
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
      const ExactLoss exact = reference(rows, classes, values, labels, 0.25);
      Memory logits(values, place);
      const double value =
          kernels_.cross_entropy_value(rows, classes, logits.data(), labels.data());
      EXPECT_TRUE(same_bits(logits.values(), values));
      const double loss =
          kernels_.cross_entropy(rows, classes, logits.data(), labels.data(), 0.25f);
      EXPECT_EQ(value, loss);
      EXPECT_NEAR(loss, exact.loss, 1e-6 * std::max(1.0, exact.loss)) << classes;
      // Summing 32,003 exponentials in order in float is off by up to 6e-6.
      EXPECT_LT(distance(logits.values(), exact.gradient, 0.25), classes < 5000 ? 2e-6 : 1.5e-5)
          << classes;
    }
  }
}

// z = scale * logit, then cap * tanh(z / cap). The gradient is with respect to the logit.
ExactLoss capped_reference(Index rows, Index classes, const std::vector<float>& logits,
                           const std::vector<std::int64_t>& labels, double scale, double cap,
                           double of_loss) {
  std::vector<double> slopes;
  ExactLoss exact;
  for (Index row = 0; row < rows; ++row) {
    std::vector<double> z;
    for (Index i = 0; i < classes; ++i) {
      const double scaled = scale * static_cast<double>(logits[row * classes + i]),
                   bent = cap > 0 ? std::tanh(scaled / cap) : 0;
      z.push_back(cap > 0 ? cap * bent : scaled);
      slopes.push_back(scale * (1 - bent * bent));
    }
    const double top = *std::max_element(z.begin(), z.end());
    double total = 0;
    for (const double value : z) total += std::exp(value - top);
    for (Index i = 0; i < classes; ++i) {
      const bool counts = labels[row] >= 0;
      const double p = std::exp(z[i] - top) / total - (i == labels[row] ? 1 : 0);
      exact.gradient.push_back(counts ? of_loss * p * slopes[row * classes + i] : 0);
    }
    if (labels[row] >= 0) exact.loss += std::log(total) + top - z[labels[row]];
  }
  return exact;
}

TEST_P(LossKernelTest, ByBlocksIsNearFloat64) {
  struct Setting {
    float scale, cap;
  };
  for (const Index classes : {1, 33, 688, 4099}) {
    for (const Index width : {16, 100, 4099}) {
      for (const auto& [scale, cap] : {Setting{1, 0}, {0.25f, 0}, {1, 3}, {2, 30}}) {
        const Index rows = 4;
        const auto logits = random_floats(rows * classes, 1, 4);
        const std::vector<std::int64_t> labels = {0, classes - 1, -100, classes / 2};
        const ExactLoss exact = capped_reference(rows, classes, logits, labels, scale, cap, 0.25);
        std::vector<float> top(rows, kNoLogit), chosen(rows), rescale(rows);
        std::vector<double> total(rows);
        // sums of what each block left, rescaled after every later block
        std::vector<float> sums(rows);
        std::vector<float> gradient(logits.size());
        for (const bool backward : {false, true}) {
          for (Index first = 0; first < classes; first += width) {
            const Index columns = std::min(width, classes - first);
            std::vector<float> part;
            for (Index row = 0; row < rows; ++row)
              part.insert(part.end(), &logits[row * classes + first],
                          &logits[row * classes + first] + columns);
            Memory block(part, Place::kEnd);
            const LossBlock call{.rows = rows,
                                 .columns = columns,
                                 .logits = block.data(),
                                 .first = first,
                                 .labels = labels.data(),
                                 .scale = scale,
                                 .cap = cap,
                                 .top = top.data(),
                                 .total = total.data(),
                                 .chosen = chosen.data()};
            if (backward) {
              kernels_.loss_block_gradient(call, 0.25f);
            } else {
              kernels_.loss_block(call, rescale.data());
            }
            for (Index row = 0; row < rows; ++row) {
              if (!backward) sums[row] *= rescale[row];
              for (Index i = 0; i < columns; ++i) {
                const float value = block.data()[row * columns + i];
                if (backward) gradient[row * classes + first + i] = value;
                if (!backward) sums[row] += value;
              }
            }
          }
        }
        double loss = 0;
        for (Index row = 0; row < rows; ++row) {
          if (labels[row] < 0) {
            EXPECT_EQ(sums[row], 0);
            continue;
          }
          loss += std::log(total[row]) + static_cast<double>(top[row] - chosen[row]);
          if (cap == 0) {
            EXPECT_NEAR(sums[row] / total[row], 1, 4e-5);  // a float sum of up to 4,099 terms
          }
        }
        EXPECT_NEAR(loss, exact.loss, 2e-6 * std::max(1.0, exact.loss)) << classes << " " << width;
        EXPECT_LT(distance(gradient, exact.gradient, 0.25), 4e-6) << classes << " " << width;
      }
    }
  }
}

TEST_P(LossKernelTest, ByBlocksTakesBlocksOfMinusInfinityAndHandsOnWhatIsNoNumber) {
  const auto total_of = [&](float odd) {
    const std::int64_t label = 20;
    float top = kNoLogit, chosen = 0, rescale = 0;
    double total = 0;
    for (const Index first : {0, 16}) {
      std::vector<float> logits(16, first == 0 ? odd : 1.0f);
      kernels_.loss_block({.rows = 1,
                           .columns = 16,
                           .logits = logits.data(),
                           .first = first,
                           .labels = &label,
                           .top = &top,
                           .total = &total,
                           .chosen = &chosen},
                          &rescale);
    }
    return total;
  };
  EXPECT_NEAR(total_of(-INFINITY), 16, 1e-5);
  EXPECT_TRUE(std::isnan(total_of(INFINITY)));
  EXPECT_TRUE(std::isnan(total_of(NAN)));
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
  const ExactLoss exact = reference(3, 3, values, labels, 1);
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
