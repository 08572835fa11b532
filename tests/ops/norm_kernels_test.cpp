// Compares norms with float64. Each value is a few roundings away, and a row is summed in 4
// vectors, so 2e-6 of the largest value is enough for any width here. Gradients of weights sum rows
// in float32.
#include "ops/kernel_support.h"

namespace sluice::ops {
namespace {

constexpr Index kWidths[] = {1, 3, 4, 7, 8, 15, 16, 17, 33, 64, 100, 256, 688, 1031};

using Doubles = std::vector<double>;

struct RmsCase {
  Index rows, width, gap = 0;
  float offset = 0;
  bool residual = true, d_weight = true;
};

struct RmsResults {
  std::vector<float> y, inverse, dx, d_weight;
};

RmsResults rms_of(const Kernels& kernels, const RmsCase& c, const std::vector<float>& x_of,
                  Place place) {
  const Index stride = c.width + c.gap, size = (c.rows - 1) * stride + c.width;
  Memory x(x_of, place), weight(random_floats(c.width, 2), place),
      dy(random_floats(size, 3), place), residual(random_floats(size, 4), place),
      d_weight(random_floats(c.width, 5), place),
      y(std::vector<float>(static_cast<std::size_t>(size), 7), place),
      dx(std::vector<float>(static_cast<std::size_t>(size), 7), place),
      inverse(static_cast<std::size_t>(c.rows), place);
  kernels.rms_norm(c.rows, c.width, x.data(), stride, weight.data(), c.offset, 1e-5f, y.data(),
                   stride, inverse.data());
  kernels.rms_norm_gradient(c.rows, c.width, dy.data(), stride, x.data(), stride, inverse.data(),
                            weight.data(), c.offset, c.residual ? residual.data() : nullptr,
                            dx.data(), stride, c.d_weight ? d_weight.data() : nullptr);
  return {y.values(), inverse.values(), dx.values(), d_weight.values()};
}

RmsResults rms_of(const Kernels& kernels, const RmsCase& c, Place place = Place::kEnd) {
  return rms_of(kernels, c, random_floats((c.rows - 1) * (c.width + c.gap) + c.width, 1), place);
}

void expect_rms_near(const Kernels& kernels, const RmsCase& c) {
  const Index stride = c.width + c.gap, size = (c.rows - 1) * stride + c.width;
  const auto x = random_floats(size, 1), weight = random_floats(c.width, 2),
             dy = random_floats(size, 3), residual = random_floats(size, 4),
             before = random_floats(c.width, 5);
  Doubles y(x.size(), 7), dx(x.size(), 7), d_weight(before.begin(), before.end());
  double terms = 1;  // the largest term of dx, because terms cancel in a row of one value
  for (Index row = 0; row < c.rows; ++row) {
    const Index at = row * stride;
    double squares = 0, dot = 0;
    for (Index i = 0; i < c.width; ++i) squares += static_cast<double>(x[at + i]) * x[at + i];
    const double q = 1 / std::sqrt(squares / static_cast<double>(c.width) + 1e-5);
    for (Index i = 0; i < c.width; ++i) {
      y[at + i] = x[at + i] * q * (c.offset + weight[i]);
      dot += dy[at + i] * static_cast<double>(c.offset + weight[i]) * x[at + i];
      if (c.d_weight) d_weight[i] += static_cast<double>(dy[at + i]) * x[at + i] * q;
    }
    for (Index i = 0; i < c.width; ++i) {
      const double term = q * dy[at + i] * (c.offset + weight[i]);
      terms = std::max(terms, std::abs(term));
      dx[at + i] = (c.residual ? residual[at + i] : 0.0) + term -
                   x[at + i] * q * q * q * dot / static_cast<double>(c.width);
    }
  }
  const RmsResults found = rms_of(kernels, c);
  EXPECT_LT(distance(found.y, y, 1), 1e-6) << c.width;
  EXPECT_LT(distance(found.dx, dx, terms), 2e-6) << c.width;
  EXPECT_LT(distance(found.d_weight, d_weight, 1), 2e-6) << c.width;
}

using RmsNormKernelTest = KernelTest;
SLUICE_AT_EVERY_LEVEL(RmsNormKernelTest);

TEST_P(RmsNormKernelTest, IsNearFloat64AtEveryWidth) {
  for (const Index width : kWidths) expect_rms_near(kernels_, {.rows = 5, .width = width});
}

TEST_P(RmsNormKernelTest, TakesRowsThatLieApart) {
  for (const Index gap : {1, 9, 16})
    expect_rms_near(kernels_, {.rows = 4, .width = 33, .gap = gap});
}

TEST_P(RmsNormKernelTest, AddsOneToTheWeightsOfGemma) {
  expect_rms_near(kernels_, {.rows = 3, .width = 100, .offset = 1});
}

TEST_P(RmsNormKernelTest, GoesWithoutResidualAndGradientOfTheWeight) {
  expect_rms_near(kernels_, {.rows = 3, .width = 33, .residual = false});
  expect_rms_near(kernels_, {.rows = 3, .width = 33, .d_weight = false});
}

TEST_P(RmsNormKernelTest, HasTheSameBitsWhereverItsMemoryLies) {
  const RmsCase c = {.rows = 3, .width = 157};
  const RmsResults end = rms_of(kernels_, c);
  for (const Place place : {Place::kBegin, Place::kOdd}) {
    const RmsResults other = rms_of(kernels_, c, place);
    EXPECT_TRUE(same_bits(end.y, other.y));
    EXPECT_TRUE(same_bits(end.inverse, other.inverse));
    EXPECT_TRUE(same_bits(end.dx, other.dx));
    EXPECT_TRUE(same_bits(end.d_weight, other.d_weight));
  }
}

TEST_P(RmsNormKernelTest, KeepsRowsIndependent) {
  const RmsCase c = {.rows = 3, .width = 50};
  auto x = random_floats(150, 1);
  const RmsResults before = rms_of(kernels_, c, x, Place::kEnd);
  std::fill(x.begin() + 50, x.begin() + 100, NAN);
  const RmsResults after = rms_of(kernels_, c, x, Place::kEnd);
  for (const Index i : {0, 49, 100, 149}) {
    EXPECT_EQ(before.y[i], after.y[i]);
    EXPECT_EQ(before.dx[i], after.dx[i]);
  }
  EXPECT_TRUE(std::isnan(after.y[50]));
}

TEST_P(RmsNormKernelTest, WritesOverItsInput) {
  const auto values = random_floats(Index{2 * 37}, 1), weight = random_floats(Index{37}, 2);
  std::vector<float> apart(values.size()), over = values, inverse(2);
  kernels_.rms_norm(2, 37, values.data(), 37, weight.data(), 0, 1e-6f, apart.data(), 37,
                    inverse.data());
  kernels_.rms_norm(2, 37, over.data(), 37, weight.data(), 0, 1e-6f, over.data(), 37,
                    inverse.data());
  EXPECT_TRUE(same_bits(apart, over));
  std::vector<float> dy = random_floats(Index{2 * 37}, 3), dx(dy.size()), dx_over = dy;
  kernels_.rms_norm_gradient(2, 37, dy.data(), 37, values.data(), 37, inverse.data(), weight.data(),
                             0, nullptr, dx.data(), 37, nullptr);
  kernels_.rms_norm_gradient(2, 37, dx_over.data(), 37, values.data(), 37, inverse.data(),
                             weight.data(), 0, nullptr, dx_over.data(), 37, nullptr);
  EXPECT_TRUE(same_bits(dx, dx_over));
}

struct LayerNormResults {
  std::vector<float> y, dx, d_weight, d_bias;
};

LayerNormResults layer_norm_of(const Kernels& kernels, Index rows, Index width, float shift,
                               Place place = Place::kEnd) {
  const Index size = rows * width;
  auto values = random_floats(size, 1);
  for (float& value : values) value += shift;
  Memory x(values, place), weight(random_floats(width, 2), place),
      bias(random_floats(width, 3), place), dy(random_floats(size, 4), place),
      residual(random_floats(size, 5), place), d_weight(random_floats(width, 6), place),
      d_bias(random_floats(width, 7), place), y(static_cast<std::size_t>(size), place),
      dx(static_cast<std::size_t>(size), place), mean(static_cast<std::size_t>(rows), place),
      inverse(static_cast<std::size_t>(rows), place);
  kernels.layer_norm(rows, width, x.data(), weight.data(), bias.data(), 1e-5f, y.data(),
                     mean.data(), inverse.data());
  kernels.layer_norm_gradient(rows, width, dy.data(), x.data(), mean.data(), inverse.data(),
                              weight.data(), residual.data(), dx.data(), d_weight.data(),
                              d_bias.data());
  return {y.values(), dx.values(), d_weight.values(), d_bias.values()};
}

using LayerNormKernelTest = KernelTest;
SLUICE_AT_EVERY_LEVEL(LayerNormKernelTest);

TEST_P(LayerNormKernelTest, IsNearFloat64AtEveryWidth) {
  for (const float shift : {0.0f, 30.0f}) {
    for (const Index width : kWidths) {
      const Index rows = 4, size = rows * width;
      auto x = random_floats(size, 1);
      for (float& value : x) value += shift;
      const auto weight = random_floats(width, 2), bias = random_floats(width, 3),
                 dy = random_floats(size, 4), residual = random_floats(size, 5),
                 dw = random_floats(width, 6), db = random_floats(width, 7);
      Doubles y(x.size()), dx(x.size()), d_weight(dw.begin(), dw.end()),
          d_bias(db.begin(), db.end());
      for (Index row = 0; row < rows; ++row) {
        const Index at = row * width;
        const double count = static_cast<double>(width);
        double mean = 0, variance = 0, mean_g = 0, mean_gn = 0;
        for (Index i = 0; i < width; ++i) mean += x[at + i] / count;
        for (Index i = 0; i < width; ++i) variance += std::pow(x[at + i] - mean, 2) / count;
        const double q = 1 / std::sqrt(variance + 1e-5);
        const auto n = [&](Index i) { return (x[at + i] - mean) * q; };
        for (Index i = 0; i < width; ++i) {
          y[at + i] = n(i) * weight[i] + bias[i];
          const double g = static_cast<double>(dy[at + i]) * weight[i];
          mean_g += g / count;
          mean_gn += g * n(i) / count;
          d_weight[i] += dy[at + i] * n(i);
          d_bias[i] += dy[at + i];
        }
        for (Index i = 0; i < width; ++i)
          dx[at + i] = residual[at + i] +
                       (static_cast<double>(dy[at + i]) * weight[i] - mean_g - n(i) * mean_gn) * q;
      }
      const LayerNormResults found = layer_norm_of(kernels_, rows, width, shift);
      // With a mean of 30, one rounding is 2e-6, and it is divided by the standard deviation. A row
      // of few values can have a small deviation; a row of one value has sqrt(eps).
      const double bound = shift > 0 || width == 1 ? 5e-4 : 2e-6;
      EXPECT_LT(distance(found.y, y, 1), bound) << width;
      EXPECT_LT(distance(found.dx, dx, 1), bound) << width;
      EXPECT_LT(distance(found.d_weight, d_weight, 1), bound) << width;
      EXPECT_LT(distance(found.d_bias, d_bias, 1), 2e-6) << width;
    }
  }
}

TEST_P(LayerNormKernelTest, HasTheSameBitsWhereverItsMemoryLies) {
  const LayerNormResults end = layer_norm_of(kernels_, 3, 157, 0);
  for (const Place place : {Place::kBegin, Place::kOdd}) {
    const LayerNormResults other = layer_norm_of(kernels_, 3, 157, 0, place);
    EXPECT_TRUE(same_bits(end.y, other.y));
    EXPECT_TRUE(same_bits(end.dx, other.dx));
    EXPECT_TRUE(same_bits(end.d_weight, other.d_weight));
    EXPECT_TRUE(same_bits(end.d_bias, other.d_bias));
  }
}

}  // namespace
}  // namespace sluice::ops
