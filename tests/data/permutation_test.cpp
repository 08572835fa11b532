#include "data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace sluice::data {
namespace {

std::vector<std::uint64_t> all_of(const Permutation& permutation, std::uint64_t size) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < size; ++i) values.push_back(permutation.at(i));
  return values;
}

TEST(PermutationTest, TakesEveryValueOnceForEverySizeAndKey) {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    for (std::uint64_t key = 0; key < 5; ++key) {
      std::vector<std::uint64_t> values = all_of(Permutation(size, key), size);
      std::sort(values.begin(), values.end());
      for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(values[i], i) << size << " " << key;
    }
  }
}

TEST(PermutationTest, WorksAtTheEndsOfItsRange) {
  for (const std::uint64_t size :
       {std::uint64_t{1} << 32, (std::uint64_t{1} << 32) + 1, (std::uint64_t{1} << 62) + 12345}) {
    const Permutation permutation(size, 7);
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      values.push_back(permutation.at(i));
      values.push_back(permutation.at(size - 1 - i));
    }
    EXPECT_TRUE(
        std::all_of(values.begin(), values.end(), [&](std::uint64_t v) { return v < size; }));
    std::sort(values.begin(), values.end());
    EXPECT_EQ(std::adjacent_find(values.begin(), values.end()), values.end());
  }
}

TEST(PermutationTest, StaysTheSameFromVersionToVersion) {
  EXPECT_EQ(all_of(Permutation(10, 1), 10),
            (std::vector<std::uint64_t>{7, 6, 3, 1, 9, 2, 8, 0, 4, 5}));
}

// Chi-square has (size - 1)^2 degrees of freedom. It must stay below its mean plus six standard
// deviations.
TEST(PermutationTest, PutsEveryValueAtEveryPlaceAboutAsOften) {
  for (const std::uint64_t size : {2, 3, 4, 5, 7, 8, 13, 16, 17}) {
    constexpr std::uint64_t kKeys = 20'000;
    std::vector<double> counts(size * size);
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const Permutation permutation(size, key);
      for (std::uint64_t i = 0; i < size; ++i) ++counts[i * size + permutation.at(i)];
    }
    const double expected = static_cast<double>(kKeys) / static_cast<double>(size);
    double chi_square = 0;
    for (const double count : counts)
      chi_square += (count - expected) * (count - expected) / expected;
    const double freedom = static_cast<double>((size - 1) * (size - 1));
    EXPECT_LT(chi_square, freedom + 6 * std::sqrt(2 * freedom)) << size;
  }
}

TEST(PermutationTest, SeparatesNeighboursAndDependsOnTheKey) {
  constexpr std::uint64_t kSize = 10'000;
  const std::vector<std::uint64_t> values = all_of(Permutation(kSize, 3), kSize);
  const std::vector<std::uint64_t> others = all_of(Permutation(kSize, 4), kSize);
  std::size_t successors = 0, fixed = 0, equal = 0;
  for (std::size_t i = 0; i < kSize; ++i) {
    successors += i > 0 && values[i] == values[i - 1] + 1;
    fixed += values[i] == i;
    equal += values[i] == others[i];
  }
  // In a random permutation, each count is roughly Poisson with mean 1.
  EXPECT_LT(successors, 10u);
  EXPECT_LT(fixed, 10u);
  EXPECT_LT(equal, 10u);
}

}  // namespace
}  // namespace sluice::data
