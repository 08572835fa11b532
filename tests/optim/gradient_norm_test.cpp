#include "optim/gradient_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor waves(std::int64_t size) { return at::sin(at::arange(size, at::kFloat) * 0.37f); }

TEST(GradientNormTest, EqualsLibTorchsVectorNormForAnyOrder) {
  for (std::int64_t size : {1, 7, 1000, 100'003}) {
    const at::Tensor x = waves(size);
    for (double p : {1.0, 2.0, 3.0, 0.5, kInfinity}) {
      const double expected = at::linalg_vector_norm(x.to(at::kDouble), p).item<double>();
      EXPECT_NEAR(tensor_norm(x, p), expected, 1e-9 * expected) << size << " " << p;
      EXPECT_NEAR(tensor_norm(x.to(at::kDouble), p), expected, 1e-9 * expected) << size << " " << p;
    }
  }
}

TEST(GradientNormTest, HalfPrecisionAndStridedTensorsHaveANorm) {
  EXPECT_NEAR(tensor_norm(at::full({4}, 2.0, at::kBFloat16)), 4.0, 1e-12);
  EXPECT_NEAR(tensor_norm(at::ones({4, 4}).t()), 4.0, 1e-12);
  EXPECT_NEAR(tensor_norm(at::ones({4, 4}).narrow(1, 0, 1)), 2.0, 1e-12);
  EXPECT_EQ(tensor_norm(at::empty({0})), 0.0);
}

TEST(GradientNormTest, DoesNotDependOnAlignmentOrThreads) {
  const int threads_before = at::get_num_threads();
  const at::Tensor x = waves(1'000'003);
  for (double p : {2.0, 3.0}) {
    at::set_num_threads(1);
    const double expected = tensor_norm(x, p);
    for (int threads : {1, 2, 4}) {
      at::set_num_threads(threads);
      for (std::int64_t offset : {0, 1, 5, 16}) {
        const at::Tensor moved = at::empty({x.numel() + 16}).narrow(0, offset, x.numel()).copy_(x);
        EXPECT_EQ(tensor_norm(moved, p), expected) << p << " " << threads << " " << offset;
      }
    }
  }
  at::set_num_threads(threads_before);
}

TEST(GradientNormTest, LargeFiniteGradientsDoNotOverflow) {
  const double norm = tensor_norm(at::full({100}, 1e30, at::kFloat));
  EXPECT_NEAR(norm / 1e31, 1.0, 1e-6);
}

TEST(GradientNormTest, HighOrdersNeitherOverflowNorVanish) {
  for (const double p : {0.5, 3.0, 10.0, 1000.0}) {
    for (const float size : {1e-30f, 1.0f, 1e30f}) {
      const double expected = static_cast<double>(size) * std::pow(6.0, 1.0 / p);
      const double one = std::abs(static_cast<double>(size));
      const at::Tensor tensor = at::full({2, 3}, -size);
      EXPECT_NEAR(tensor_norm(tensor, p), expected, 1e-6 * expected) << p << " " << size;
      EXPECT_NEAR(tensor_norm(at::full({2, 6}, size).slice(1, 0, 6, 2), p), expected,
                  1e-6 * expected);
      EXPECT_NEAR(combine_norms(std::vector<double>(6, one), p), expected, 1e-6 * expected);
    }
  }
}

TEST(GradientNormTest, OfNothingIsZero) {
  for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(tensor_norm(at::zeros({0, 3}), p), 0.0);
    EXPECT_EQ(tensor_norm(at::zeros({0, 3}, at::kBFloat16), p), 0.0);
    EXPECT_EQ(tensor_norm(at::zeros({4}), p), 0.0);
    EXPECT_EQ(combine_norms({}, p), 0.0);
  }
}

TEST(GradientNormTest, IsNotFiniteExactlyIfAnElementIsNot) {
  for (double p : {2.0, kInfinity}) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      at::Tensor x = waves(50'000);
      EXPECT_TRUE(std::isfinite(tensor_norm(x, p)));
      x[40'001] = bad;
      EXPECT_FALSE(std::isfinite(tensor_norm(x, p))) << p << " " << bad;
      const std::vector<double> norms = {1.0, tensor_norm(x, p), 2.0};
      EXPECT_FALSE(std::isfinite(combine_norms(norms, p))) << p << " " << bad;
    }
  }
}

TEST(GradientNormTest, TheNormOfPiecesIsTheNormOfTheWhole) {
  const at::Tensor x = waves(1000);
  for (double p : {1.0, 2.0, 3.0, kInfinity}) {
    std::vector<double> norms;
    for (const at::Tensor& piece : x.split({100, 1, 399, 500}))
      norms.push_back(tensor_norm(piece, p));
    EXPECT_NEAR(combine_norms(norms, p), tensor_norm(x, p), 1e-12 * tensor_norm(x, p)) << p;
  }
  EXPECT_EQ(combine_norms({}), 0.0);
}

TEST(GradientNormTest, ClipsAsTorchDoes) {
  EXPECT_DOUBLE_EQ(clip_coefficient(4.0, 1.0), 1.0 / 4.000001);
  EXPECT_EQ(clip_coefficient(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_coefficient(0.0, 1.0), 1.0);
  EXPECT_EQ(clip_coefficient(100.0, 0.0), 1.0);
}

TEST(GradientNormTest, TheSumsOfBlocksOfSeveralOwnersComeToTheNormOfTheWhole) {
  for (const std::int64_t numel : {std::int64_t{1}, kGradientBlock, 5 * kGradientBlock + 77}) {
    const at::Tensor whole = at::sin(at::arange(numel, at::kFloat) * 0.7);
    for (const std::int64_t first : {std::int64_t{0}, kGradientBlock, 3 * kGradientBlock}) {
      const std::int64_t end = std::min(first, numel);
      std::vector<double> squares = block_squares(whole.narrow(0, 0, end));
      const std::vector<double> rest = block_squares(whole.narrow(0, end, numel - end));
      squares.insert(squares.end(), rest.begin(), rest.end());
      EXPECT_EQ(norm_of_blocks(squares), tensor_norm(whole)) << numel << " from " << first;
    }
  }
  EXPECT_EQ(norm_of_blocks({}), 0.0);
}

}  // namespace
}  // namespace sluice
