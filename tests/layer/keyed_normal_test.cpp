#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "layer/philox.h"
#include "sluice/error.h"
#include "sluice/layer.h"

namespace sluice {
namespace {

at::Tensor drawn(std::int64_t count, std::uint64_t seed, const std::string& name,
                 std::int64_t offset = 0, at::ScalarType dtype = at::kFloat) {
  at::Tensor values = at::empty({count}, dtype);
  keyed_normal_(values, seed, name, 0.0, 1.0, offset);
  return values;
}

// Test vectors published by the authors of the generator (Random123, kat_vectors).
TEST(PhiloxTest, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(KeyedNormalTest, AnySliceHasTheBitsOfTheWhole) {
  const at::Tensor whole = drawn(100'000, 3, "w");
  for (const std::int64_t offset : {0, 1, 2, 3, 4, 511, 512, 513, 65'537, 99'999}) {
    for (const std::int64_t count : {1, 5, 1000}) {
      const std::int64_t inside = std::min(count, 100'000 - offset);
      EXPECT_TRUE(at::equal(drawn(inside, 3, "w", offset), whole.narrow(0, offset, inside)))
          << offset << " " << count;
    }
  }
}

TEST(KeyedNormalTest, TheNumberOfThreadsDoesNotMatter) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = drawn(300'000, 3, "w");
  at::set_num_threads(4);
  const at::Tensor four = drawn(300'000, 3, "w");
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(one, four));
}

TEST(KeyedNormalTest, SeedAndNameGiveOtherNumbers) {
  const at::Tensor values = drawn(1000, 3, "w");
  for (const at::Tensor& other :
       {drawn(1000, 4, "w"), drawn(1000, 3, "v"), drawn(1000, 3, ""), drawn(1000, 0, "w")}) {
    EXPECT_LT(values.eq(other).sum().item<std::int64_t>(), 3);
    EXPECT_LT(std::abs((values * other).mean().item<double>()), 0.15);
  }
}

TEST(KeyedNormalTest, IsANormalDistribution) {
  const at::Tensor values = drawn(4'000'000, 1, "w", 0, at::kDouble);
  const auto mean_of = [](const at::Tensor& x) { return x.mean().item<double>(); };
  EXPECT_NEAR(mean_of(values), 0.0, 2.5e-3);  // tolerances are five standard errors of each moment
  EXPECT_NEAR(mean_of(values.pow(2)), 1.0, 3.5e-3);
  EXPECT_NEAR(mean_of(values.pow(3)), 0.0, 1e-2);
  EXPECT_NEAR(mean_of(values.pow(4)), 3.0, 2.5e-2);
  for (const double x : {-3.0, -1.0, -0.1, 0.5, 2.0}) {
    EXPECT_NEAR(mean_of(values.lt(x).to(at::kDouble)), 0.5 * std::erfc(-x / std::numbers::sqrt2),
                1.3e-3)
        << x;
  }
  for (const std::int64_t lag : {1, 2, 3, 4, 512}) {
    const std::int64_t count = values.numel() - lag;
    EXPECT_NEAR(mean_of(values.narrow(0, 0, count) * values.narrow(0, lag, count)), 0.0, 2.5e-3)
        << "lag " << lag;
  }
  EXPECT_GT(values.abs().max().item<double>(), 4.5);
  EXPECT_TRUE(values.isfinite().all().item<bool>());
}

// Every machine must produce these bits, because runs are compared by hash. A separate program that
// uses a C library's log, sin and cos agrees to 1e-15.
TEST(KeyedNormalTest, TheBitsAreFixed) {
  const at::Tensor values = drawn(6, 42, "model.layers.0.mlp.up_proj.weight", 0, at::kDouble);
  const at::Tensor expected =
      at::tensor({0x1.440868d0c450ap-1, 0x1.344f3537036f6p+1, 0x1.7b52b91ba0297p-1,
                  -0x1.0a91c0b29d9d1p-2, -0x1.f20f5afd0bdb6p-2, -0x1.5f8fd8040f3a2p-1},
                 at::kDouble);
  EXPECT_TRUE(at::equal(values, expected)) << values;
}

TEST(KeyedNormalTest, MeanAndStdScale) {
  at::Tensor values = at::empty({1000}, at::kDouble);
  keyed_normal_(values, 3, "w", 5.0, 0.25);
  EXPECT_TRUE(at::equal(values, drawn(1000, 3, "w", 0, at::kDouble) * 0.25 + 5.0));
}

TEST(KeyedNormalTest, OtherTypesAreRounded) {
  const at::Tensor wide = drawn(1000, 3, "w", 0, at::kDouble);
  EXPECT_TRUE(at::equal(drawn(1000, 3, "w"), wide.to(at::kFloat)));
  EXPECT_TRUE(
      at::equal(drawn(1000, 3, "w", 0, at::kBFloat16), wide.to(at::kFloat).to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(drawn(1000, 3, "w", 0, at::kHalf), wide.to(at::kFloat).to(at::kHalf)));
}

TEST(KeyedNormalTest, ElementsCountInRowMajorOrderWhateverTheStrides) {
  at::Tensor columns_first = at::empty({7, 5}).t();
  keyed_normal_(columns_first, 3, "w", 0.0, 1.0);
  EXPECT_TRUE(at::equal(columns_first, drawn(35, 3, "w").view({5, 7})));
}

TEST(KeyedNormalTest, FillsALeafThatRequiresAGradient) {
  at::Tensor leaf = at::empty({35}).requires_grad_();
  keyed_normal_(leaf, 3, "w", 0.0, 1.0);
  EXPECT_TRUE(leaf.is_leaf());
  EXPECT_TRUE(at::equal(leaf, drawn(35, 3, "w")));
}

TEST(KeyedNormalTest, RefusesIntegersAndNegativeOffsets) {
  at::Tensor integers = at::empty({3}, at::kLong), floats = at::empty({3});
  EXPECT_THROW(keyed_normal_(integers, 0, "w", 0, 1), Error);
  EXPECT_THROW(keyed_normal_(floats, 0, "w", 0, 1, -1), Error);
}

}  // namespace
}  // namespace sluice
