// Sums gradients over a balanced binary tree of shards, so that the result is bitwise equal for any
// number of data-parallel replicas. The sum of shards [b, e) is the sum of the first half, [b, b +
// (e - b) / 2), plus the sum of the second:
//
//              [0,6)                  [0,8)
//          [0,3)   [3,6)          [0,4)   [4,8)        three replicas of 6 own [0,2), [2,4), [4,6):
//         0 [1,3) 3 [4,6)        [0,2)    ...          largest subtrees 0 1 | 2 3 | [4,6)
//           1 2     4 5          0   1
//
// A replica pushes each shard's sum on a stack, then adds the two latest sums num_additions_after()
// times. Its largest_subtrees() remain. Pushing these for all replicas on one stack, with `owned` =
// all shards, yields the total. The earlier sum is always the left operand.
//
// Invariants:
//   1. The subtrees of adjacent replicas cover every shard once, in order.
//   2. While a replica that owns [b, e) sums shard s, its stack holds largest_subtrees({b, s}).
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

// Preconditions: degree divides num_shards, 0 <= replica < degree.
ShardRange shards_of_replica(int replica, int degree, int num_shards);

// The fewest subtrees that together cover `range`, ascending. Precondition: 0 <= range.begin <=
// range.end <= num_shards.
std::vector<ShardRange> largest_subtrees(ShardRange range, int num_shards);

// Returns how often to add the two latest sums after pushing `subtree`'s on a stack that holds
// those of [owned.begin, subtree.begin). Precondition: `subtree` is a subtree of [0, num_shards)
// within `owned`.
int num_additions_after(ShardRange subtree, ShardRange owned, int num_shards);

// Returns the most gradient sums that a replica holds at once: the current shard's and the stack.
// Precondition: `owned` is not empty.
int max_held_sums(ShardRange owned, int num_shards);

}  // namespace sluice::detail
