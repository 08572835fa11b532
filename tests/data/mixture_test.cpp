#include "data/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/key_hash.h"
#include "data/sequence_order.h"

namespace sluice::data {
namespace {

double largest_deviation(const std::vector<double>& weights, std::uint64_t places) {
  const Mixture mixture(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::uint64_t> had(weights.size());
  double largest = 0;
  for (std::uint64_t place = 0; place < places; ++place) {
    const Mixture::Turn turn = mixture.at(place);
    EXPECT_EQ(turn.number, had[turn.entry]++) << place;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double exact = weights[i] / sum * static_cast<double>(place + 1);
      largest = std::max(largest, std::abs(static_cast<double>(had[i]) - exact));
    }
  }
  return largest;
}

TEST(MixtureTest, EveryPrefixHasTheSharesUpToOneTurn) {
  std::uint64_t state = 7;
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<double> weights(1 + next_bits(state) % 9);
    for (double& weight : weights) weight = static_cast<double>(1 + next_bits(state) % 50);
    const double slack = weights.size() < 2 ? 0.5 : 1.0 / (2.0 * weights.size() - 2.0);
    EXPECT_LE(largest_deviation(weights, 3000), 1 - slack + 1e-9) << weights.size();
  }
  EXPECT_LE(largest_deviation({0.7, 0.3}, 1000), 0.5 + 1e-9);
  EXPECT_LE(largest_deviation({0.1, 0.2, 0.3, 0.4}, 1000), 0.84);
}

TEST(MixtureTest, FractionsAreExactAndOthersNearlySo) {
  EXPECT_EQ(Mixture({0.7, 0.3}).period(), 10u);
  EXPECT_EQ(Mixture({1, 1, 1}).period(), 3u);
  EXPECT_EQ(Mixture({5}).period(), 1u);
  EXPECT_EQ(Mixture({0.001, 0.999}).turns(), (std::vector<std::uint32_t>{1, 999}));
  const Mixture irrational({std::sqrt(2.0), std::sqrt(3.0), 1});
  const double sum = std::sqrt(2.0) + std::sqrt(3.0) + 1;
  EXPECT_EQ(irrational.period(), 65536u);
  EXPECT_NEAR(irrational.turns()[0] / 65536.0, std::sqrt(2.0) / sum, 1.0 / 65536);
}

TEST(MixtureTest, EveryEntryHasATurnHoweverSmallItsWeight) {
  const Mixture mixture({1e-300, 1e300, 1, 1});
  for (const std::uint32_t turns : mixture.turns()) EXPECT_GE(turns, 1u);
  EXPECT_EQ(mixture.period(), 65536u);
  EXPECT_EQ(Mixture(std::vector<double>(Mixture::kMaxEntries, 0.1)).period(), Mixture::kMaxEntries);
}

TEST(SequenceOrderTest, EveryEntryOfAMixtureGoesThroughItsOwnEpochs) {
  const std::vector<std::uint64_t> sizes = {5, 30};
  const SequenceOrder order(sizes, {1, 2}, /*shuffle=*/true, /*seed=*/3);
  std::vector<std::vector<std::uint64_t>> seen(2);
  for (std::int64_t place = 0; place < 300; ++place) {
    const SequenceOrder::Place at = order.at({place}, 0);
    EXPECT_EQ(order.at({0}, place), at);
    seen[at.entry].push_back(at.sequence);
  }
  EXPECT_EQ(seen[0].size(), 100u);
  EXPECT_EQ(seen[1].size(), 200u);
  for (std::size_t entry = 0; entry < 2; ++entry) {
    std::set<std::vector<std::uint64_t>> epochs;
    for (std::size_t i = 0; i + sizes[entry] <= seen[entry].size(); i += sizes[entry]) {
      const auto begin = seen[entry].begin() + static_cast<std::ptrdiff_t>(i);
      std::vector<std::uint64_t> epoch(begin, begin + static_cast<std::ptrdiff_t>(sizes[entry]));
      epochs.insert(epoch);
      std::sort(epoch.begin(), epoch.end());
      for (std::uint64_t k = 0; k < sizes[entry]; ++k) ASSERT_EQ(epoch[k], k);
    }
    EXPECT_GT(epochs.size(), 4u) << "each in an order of its own";
  }
}

TEST(SequenceOrderTest, WithoutWeightsEntriesAreOneList) {
  const SequenceOrder order({2, 3}, {}, /*shuffle=*/false, 0);
  EXPECT_EQ(order.num_sequences(), 5u);
  std::vector<std::pair<std::size_t, std::uint64_t>> places;
  for (std::int64_t i = 0; i < 6; ++i) {
    const SequenceOrder::Place at = order.at({0}, i);
    places.emplace_back(at.entry, at.sequence);
  }
  EXPECT_EQ(places, (std::vector<std::pair<std::size_t, std::uint64_t>>{
                        {0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}, {0, 0}}));
}

}  // namespace
}  // namespace sluice::data
