#include "command/processes.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/all_ranks_here.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

TEST(LocalRanksTest, AllRanksHereAreConnectedAndTheSpeakerIsAmongThem) {
  const LocalRanks ranks = test::all_ranks_here(3);
  EXPECT_EQ(ranks.here, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(ranks.on_machine, 3);
  EXPECT_TRUE(ranks.has_rank_zero());
  const auto endpoints = ranks.connect();
  ASSERT_EQ(endpoints.size(), 3u);
  EXPECT_EQ(endpoints[2]->rank(), 2);
}

TEST(LocalRanksTest, ValuesOfAProcessWithoutRank0AreFoundByRank) {
  LocalRanks ranks;
  ranks.num_ranks = 4;
  ranks.here = {2, 3};
  EXPECT_FALSE(ranks.has_rank_zero());
  EXPECT_FALSE(ranks.has(0));
  EXPECT_TRUE(ranks.has(3));
  PerRank<int> values(ranks);
  values.at(2) = values.at(3) = 7;
  EXPECT_EQ(agreed(values, "sevens"), 7);
  EXPECT_THROW(values.at(0), std::out_of_range);
}

TEST(LocalRanksTest, RanksThatDisagreeAreNamed) {
  PerRank<int> values(test::all_ranks_here(3));
  values.at(2) = 1;
  const Error error = test::error_of([&] { agreed(values, "the number of steps done"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  EXPECT_EQ(error.fact(), "ranks 0 and 2 disagree on the number of steps done");
}

TEST(LocalRanksTest, CoresAreDividedAmongTheRanksOfTheMachineWhereverTheyAre) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  LocalRanks ranks;
  ranks.num_ranks = 4 * cores;
  ranks.here = {2};  // alone in its process, but not on its machine
  ranks.on_machine = 1;
  EXPECT_EQ(ranks.threads_per_rank(0), std::max(1, cores));
  ranks.on_machine = 2 * cores;
  EXPECT_EQ(ranks.threads_per_rank(0), 1);
  EXPECT_EQ(ranks.threads_per_rank(3), 3);
}

}  // namespace
}  // namespace sluice
