// Gradients are summed over a balanced binary tree of shards, so that the result is bitwise equal
// for any number of replicas. This file says which parts of the tree one replica can sum alone.
//
// The sum of shards [b, e) is the sum of the first half, [b, b + (e - b) / 2), plus the sum of the
// second half. The order therefore depends only on the number of shards:
//
//               [0,6)                  [0,8)
//           [0,3)   [3,6)          [0,4)   [4,8)        three replicas of 6 own [0,2), [2,4),
//           [4,6):
//          0 [1,3) 3 [4,6)        [0,2)    ...          largest subtrees 0 1 | 2 3 | [4,6)
//            1 2     4 5          0   1
//
// Each replica sums one shard at a time and pushes the result on a stack. After each push it adds
// the two latest sums num_additions_after() times. Its largest_subtrees() remain on the stack.
// These sums of all replicas are then pushed in ascending order on one stack, with `owned` = all
// shards, which yields the total. The earlier sum is always the left operand.
//
// Invariants:
//   1. The subtrees of replicas with adjacent ranges cover every shard once, in order.
//   2. While a replica that owns [b, e) sums shard s, its stack holds exactly
//      largest_subtrees({b, s}).
#pragma once

#include <vector>

namespace sluice::detail {

// Shards [begin, end).
struct ShardRange {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  friend bool operator==(const ShardRange&, const ShardRange&) = default;
};

// The shards of one replica. Preconditions: degree divides num_shards, and 0 <= replica < degree.
ShardRange shards_of_replica(int replica, int degree, int num_shards);

// Returns the fewest subtrees that together cover `range`, ascending. Precondition: 0 <=
// range.begin <= range.end <= num_shards.
std::vector<ShardRange> largest_subtrees(ShardRange range, int num_shards);

// After the sum of `subtree` was pushed, the two latest sums on the stack are added this many
// times. The stack must already hold [owned.begin, subtree.begin). Precondition: `subtree` is a
// subtree of [0, num_shards) and lies within `owned`.
int num_additions_after(ShardRange subtree, ShardRange owned, int num_shards);

// The most gradient sums that a replica holds at once: the running sum and the stack. This is 1 if
// it owns one shard. If `owned` is a subtree, the stack holds at most one sum per level.
// Precondition: `owned` is not empty.
int max_held_sums(ShardRange owned, int num_shards);

}  // namespace sluice::detail
