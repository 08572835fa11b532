#include "plan/shard_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sluice::detail::shard_tree_test {
namespace {

using Ranges = std::vector<ShardRange>;

// Writes the order of additions, such as "(0+(1+2))".
std::string sum_of(int begin, int end) {
  if (end - begin == 1) return std::to_string(begin);
  const int middle = begin + (end - begin) / 2;
  return "(" + sum_of(begin, middle) + "+" + sum_of(middle, end) + ")";
}

struct Sum {
  ShardRange range;
  std::string text;
};

void push(std::vector<Sum>& stack, Sum sum, ShardRange owned, int num_shards) {
  stack.push_back(sum);
  for (int n = num_additions_after(sum.range, owned, num_shards); n > 0; --n) {
    const Sum later = stack.back();
    stack.pop_back();
    Sum& earlier = stack.back();
    earlier.range.end = later.range.end;
    earlier.text = "(" + earlier.text + "+" + later.text + ")";
  }
}

Ranges ranges_of(const std::vector<Sum>& stack) {
  Ranges ranges;
  for (const Sum& sum : stack) ranges.push_back(sum.range);
  return ranges;
}

TEST(ShardTreeTest, AReplicaOwnsAnEqualShareInItsPlace) {
  EXPECT_EQ(shards_of_replica(0, 1, 6), (ShardRange{0, 6}));
  EXPECT_EQ(shards_of_replica(1, 3, 6), (ShardRange{2, 4}));
  EXPECT_EQ(shards_of_replica(3, 4, 4), (ShardRange{3, 4}));
}

TEST(ShardTreeTest, APowerOfTwoGivesEveryReplicaOneSubtree) {
  for (int replica = 0; replica < 4; ++replica) {
    const ShardRange owned = shards_of_replica(replica, 4, 16);
    EXPECT_EQ(largest_subtrees(owned, 16), Ranges{owned});
  }
}

TEST(ShardTreeTest, ARangeAcrossTheMiddleIsSeveralSubtrees) {
  EXPECT_EQ(largest_subtrees({0, 2}, 6), (Ranges{{0, 1}, {1, 2}}));
  EXPECT_EQ(largest_subtrees({2, 4}, 6), (Ranges{{2, 3}, {3, 4}}));
  EXPECT_EQ(largest_subtrees({4, 6}, 6), (Ranges{{4, 6}}));
  EXPECT_EQ(largest_subtrees({1, 7}, 8), (Ranges{{1, 2}, {2, 4}, {4, 6}, {6, 7}}));
  EXPECT_EQ(largest_subtrees({3, 3}, 8), Ranges{});
}

TEST(ShardTreeTest, EveryDegreeAddsUpInTheSameTree) {
  for (int num_shards = 1; num_shards <= 48; ++num_shards) {
    for (int degree = 1; degree <= num_shards; ++degree) {
      if (num_shards % degree != 0) continue;
      std::vector<Sum> whole;
      for (int replica = 0; replica < degree; ++replica) {
        const ShardRange owned = shards_of_replica(replica, degree, num_shards);
        std::vector<Sum> own;
        std::size_t most = 0;
        for (int shard = owned.begin; shard < owned.end; ++shard) {
          ASSERT_EQ(ranges_of(own), largest_subtrees({owned.begin, shard}, num_shards));
          most = std::max(most, own.size() + 1);
          push(own, {{shard, shard + 1}, std::to_string(shard)}, owned, num_shards);
        }
        ASSERT_EQ(ranges_of(own), largest_subtrees(owned, num_shards));
        ASSERT_EQ(max_held_sums(owned, num_shards), static_cast<int>(most));
        for (const Sum& sum : own) push(whole, sum, {0, num_shards}, num_shards);
      }
      ASSERT_EQ(whole.size(), 1u) << num_shards << " shards, degree " << degree;
      ASSERT_EQ(whole.front().text, sum_of(0, num_shards));
    }
  }
}

TEST(ShardTreeTest, HoldsOneSumMoreForEveryLevelOfItsSubtree) {
  EXPECT_EQ(max_held_sums({0, 1}, 1), 1);
  EXPECT_EQ(max_held_sums({3, 4}, 4), 1);
  EXPECT_EQ(max_held_sums({0, 2}, 2), 2);
  EXPECT_EQ(max_held_sums({4, 8}, 8), 3);
  EXPECT_EQ(max_held_sums({0, 1024}, 1024), 11);
  EXPECT_EQ(max_held_sums({2, 4}, 6), 2);  // the range is not a subtree, so both halves stay
}

}  // namespace
}  // namespace sluice::detail::shard_tree_test
