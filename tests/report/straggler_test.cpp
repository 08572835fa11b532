#include "report/straggler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace sluice::test {
namespace {

// Simulates ranks of a pipeline. The first and last rank do more work than the others, two of which
// have 3 blocks and the rest 2. The seconds of a step vary for all ranks together, because rows
// vary in length, and for each rank alone.
class Series {
 public:
  explicit Series(std::vector<RankWork> work, std::vector<double> seconds)
      : watch_(std::move(work)), seconds_(std::move(seconds)) {}

  std::vector<Straggler> run(int steps, const std::function<double(int rank, int step)>& factor,
                             int gathered_every = 1) {
    std::vector<Straggler> found;
    std::vector<double> sums(seconds_.size(), 0);
    for (int i = 0; i < steps; ++i) {
      const double length = std::exp(0.3 * normal_(random_));
      for (std::size_t rank = 0; rank < seconds_.size(); ++rank) {
        double noise = 1 + 0.05 * std::abs(normal_(random_));
        if (uniform_(random_) < 0.02) noise *= 3;  // another process ran on the core
        sums[rank] += seconds_[rank] * length * noise * factor(static_cast<int>(rank), step_);
      }
      ++step_;
      if (step_ % gathered_every != 0) continue;
      for (const Straggler& straggler : watch_.add(sums, gathered_every)) {
        found.push_back(straggler);
        last_step_ = step_;
      }
      sums.assign(sums.size(), 0);
    }
    return found;
  }
  int last_step() const { return last_step_; }

 private:
  StragglerWatch watch_;
  std::vector<double> seconds_;
  std::mt19937 random_{7};
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  int step_ = 0, last_step_ = 0;
};

Series pipeline() {
  return Series(
      {{"embedding", 2}, {"blocks", 2}, {"blocks", 2}, {"blocks", 3}, {"blocks", 3}, {"head", 1}},
      {0.010, 0.020, 0.021, 0.030, 0.0305, 0.045});
}

double alike(int /*rank*/, int /*step*/) { return 1; }

TEST(StragglerTest, AThousandCleanStepsHaveNone) {
  EXPECT_TRUE(pipeline().run(1000, alike).empty());
  EXPECT_TRUE(pipeline().run(5000, alike, 5).empty());
  EXPECT_TRUE(pipeline().run(20000, alike, 100).empty());
}

TEST(StragglerTest, ARankThatBecomesSlowIsNamedOnceWithItsFactor) {
  for (const int slow : {0, 2, 5}) {
    Series series = pipeline();
    const auto found =
        series.run(400, [&](int rank, int step) { return rank == slow && step >= 200 ? 1.6 : 1; });
    ASSERT_EQ(found.size(), 1u) << slow;
    EXPECT_EQ(found[0].rank, slow);
    EXPECT_NEAR(found[0].factor, 1.6, 0.25);
    EXPECT_GE(series.last_step(), 200 + 16) << "20 steps long, but for accidents";
    EXPECT_LE(series.last_step(), 200 + 25);
  }
}

TEST(StragglerTest, ARankThatIsSlowFromTheBeginningIsFoundAmongThoseAlike) {
  const auto found =
      pipeline().run(100, [](int rank, int /*step*/) { return rank == 3 ? 1.5 : 1; });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 3);
}

TEST(StragglerTest, OfTwoReplicasTheSlowOneIsNamed) {
  Series series({{"all", 1}, {"all", 1}}, {0.1, 0.1});
  const auto found = series.run(100, [](int rank, int /*step*/) { return rank == 0 ? 1.5 : 1; });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 0);
}

TEST(StragglerTest, AnEpisodeThatEndedMayBeginAgain) {
  const auto found = pipeline().run(600, [](int rank, int step) {
    const bool slow = (step >= 100 && step < 200) || (step >= 400 && step < 500);
    return rank == 2 && slow ? 1.7 : 1;
  });
  EXPECT_EQ(found.size(), 2u);
}

TEST(StragglerTest, LessThanTheFactorOrShorterThanTheStepsIsNone) {
  EXPECT_TRUE(pipeline()
                  .run(600, [](int rank, int step) { return rank == 2 && step > 99 ? 1.2 : 1; })
                  .empty());
  EXPECT_TRUE(
      pipeline()
          .run(600, [](int rank, int step) { return rank == 2 && step % 40 < 15 ? 2.0 : 1; })
          .empty());
}

TEST(StragglerTest, WithSeveralStepsAtOnceItIsFoundAfterThree) {
  Series series = pipeline();
  const auto found = series.run(
      2000, [](int rank, int step) { return rank == 4 && step >= 1000 ? 1.6 : 1; }, 50);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 4);
  EXPECT_LE(series.last_step(), 1000 + 150);
}

TEST(StragglerTest, OneRankHasNothingToBeComparedWith) {
  Series series({{"all", 1}}, {0.1});
  EXPECT_TRUE(series.run(100, [](int, int step) { return step < 50 ? 1 : 3; }).empty());
}

TEST(StragglerTest, LessThanAMillisecondOfAStepIsNone) {
  Series series({{"all", 1}, {"all", 1}, {"all", 1}}, {0.001, 0.001, 0.001});
  EXPECT_TRUE(series.run(100, [](int rank, int /*step*/) { return rank == 0 ? 1.6 : 1; }).empty());
}

TEST(StragglerTest, RanksThatComputeNothingAreNone) {
  StragglerWatch watch({{"a", 1}, {"b", 1}});
  for (int step = 0; step < 100; ++step) EXPECT_TRUE(watch.add({0, 0}, 1).empty());
}

TEST(StragglerTest, TheWarningNamesRankStagesAndFactor) {
  EXPECT_EQ(straggler_text({3, 1.62, 20}, {"blocks", 2, {3, 7}}),
            "straggler: rank 3 (stages 3, 7) computes 1.6 times as long as the other ranks "
            "suggest, for 20 steps; check its machine: clock, temperature, other programs");
}

}  // namespace
}  // namespace sluice::test
