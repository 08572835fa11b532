// Sums and rotations of rows. Each element has one or two roundings.
#include "ops/kernel_support.h"

namespace sluice::ops {
namespace {

using RowKernelTest = KernelTest;
SLUICE_AT_EVERY_LEVEL(RowKernelTest);

TEST_P(RowKernelTest, AddsABiasToEveryRow) {
  for (const Index width : {1, 7, 16, 33}) {
    const Index rows = 3, stride = width + 2, size = (rows - 1) * stride + width;
    const auto before = random_floats(size, 1), of_bias = random_floats(width, 2);
    Memory x(before, Place::kEnd), bias(of_bias, Place::kEnd);
    kernels_.add_bias(rows, width, bias.data(), x.data(), stride);
    const auto after = x.values();
    for (Index row = 0; row < rows; ++row) {
      for (Index i = 0; i < width; ++i)
        EXPECT_EQ(after[row * stride + i], before[row * stride + i] + of_bias[i]);
    }
    EXPECT_EQ(after[width], before[width]);
  }
}

TEST_P(RowKernelTest, AddsRowsFromTheFirstToTheLast) {
  for (const Index width : {1, 7, 16, 33}) {
    const Index rows = 50, stride = width + 3, size = (rows - 1) * stride + width;
    const auto values = random_floats(size, 1);
    auto expected = random_floats(width, 2);
    Memory x(values, Place::kEnd), sums(expected, Place::kEnd);
    kernels_.add_rows(rows, width, x.data(), stride, sums.data());
    for (Index row = 0; row < rows; ++row) {
      for (Index i = 0; i < width; ++i) expected[i] += values[row * stride + i];
    }
    EXPECT_TRUE(same_bits(sums.values(), expected));
  }
}

TEST_P(RowKernelTest, AddsScaledVectors) {
  for (const Index size : {1, 15, 16, 17, 100}) {
    const auto x = random_floats(size, 1), z = random_floats(size, 2);
    Memory of_x(x, Place::kEnd), of_z(z, Place::kEnd), y(z, Place::kEnd),
        sum(static_cast<std::size_t>(size));
    kernels_.add_scaled(size, 0.37f, of_x.data(), y.data());
    kernels_.sum_scaled(size, of_x.data(), 0.37f, of_z.data(), sum.data());
    std::vector<double> exact_y, exact_sum;
    for (std::size_t i = 0; i < x.size(); ++i) {
      exact_y.push_back(static_cast<double>(z[i]) + 0.37f * static_cast<double>(x[i]));
      exact_sum.push_back(static_cast<double>(x[i]) + 0.37f * static_cast<double>(z[i]));
    }
    EXPECT_LT(distance(y.values(), exact_y, 1), 2e-7);
    EXPECT_LT(distance(sum.values(), exact_sum, 1), 2e-7);
  }
}

TEST_P(RowKernelTest, TurnsPairsOfChannelsAndTurnsThemBack) {
  for (const Index half : {1, 4, 8, 11, 16, 32}) {
    for (const Index rest : {0, 6}) {  // channels that are not rotated
      const Index rows = 3, heads = 2, head_dim = 2 * half + rest, stride = heads * head_dim + 5,
                  size = (rows - 1) * stride + heads * head_dim;
      const auto before = random_floats(size, 1), angles = random_floats(rows * half, 2);
      std::vector<float> c, s;
      for (const float angle : angles) {
        c.push_back(std::cos(angle));
        s.push_back(std::sin(angle));
      }
      Memory x(before, Place::kEnd), cosines(c, Place::kEnd), sines(s, Place::kEnd);
      kernels_.rotate(rows, heads, head_dim, half, x.data(), stride, cosines.data(), sines.data(),
                      1);
      std::vector<double> exact(before.begin(), before.end());
      for (Index row = 0; row < rows; ++row) {
        for (Index head = 0; head < heads; ++head) {
          for (Index i = 0; i < half; ++i) {
            const Index low = row * stride + head * head_dim + i, high = low + half,
                        of = row * half + i;
            const double a = before[low], b = before[high];
            exact[low] = a * c[of] - b * s[of];
            exact[high] = b * c[of] + a * s[of];
          }
        }
      }
      EXPECT_LT(distance(x.values(), exact), 2e-7) << half;
      kernels_.rotate(rows, heads, head_dim, half, x.data(), stride, cosines.data(), sines.data(),
                      -1);
      EXPECT_LT(distance(x.values(), std::vector<double>(before.begin(), before.end())), 6e-7);
    }
  }
}

}  // namespace
}  // namespace sluice::ops
