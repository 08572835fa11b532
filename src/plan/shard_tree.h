// The order in which shards of gradients add up: a balanced binary tree over the shards of all
// replicas, and the part of it that one of them can sum by itself.
//
// The sum of [b, e) is that of its first half, [b, b + (e - b) / 2), plus that of the rest, down to
// single shards. So the order belongs to the number of shards, whoever owns them:
//
//              [0,6)                  [0,8)
//          [0,3)   [3,6)          [0,4)   [4,8)        three replicas of 6 own [0,2), [2,4), [4,6):
//         0 [1,3) 3 [4,6)        [0,2)    ...          largest subtrees 0 1 | 2 3 | [4,6)
//           1 2     4 5          0   1
//
// The sum of a replica: it adds up a shard in the running sum, puts that on a stack, and adds the
// two latest as often as num_additions_after() says; what remains are its largest_subtrees(). Those
// of all replicas, pushed in ascending order on one stack with `owned` = all shards, become the
// whole. The earlier sum is always the left operand.
//
// Does not own: tensors (src/train), which microbatches a shard has (row_facts.h, in
// src/engine). Invariants:
//  1. Subtrees of replicas that own adjacent ranges cover every shard once, in order.
//  2. While shard s of a replica that owns [b, e) is summed, its stack holds exactly
//     largest_subtrees({b, s}).
// Thread-safety: pure functions.
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

// The shards that replica `replica` of `degree` owns. Preconditions: degree divides num_shards, 0
// <= replica < degree.
ShardRange shards_of_replica(int replica, int degree, int num_shards);

// The fewest subtrees of [0, num_shards) that are `range` together, ascending; none of an empty
// range. Precondition: 0 <= range.begin <= range.end <= num_shards.
std::vector<ShardRange> largest_subtrees(ShardRange range, int num_shards);

// The number of times that the two latest sums of the stack become one after that of `subtree` was
// put on it, where [owned.begin, subtree.begin) is there already. Precondition: `subtree` is one of
// [0, num_shards), within `owned`.
int num_additions_after(ShardRange subtree, ShardRange owned, int num_shards);

// Sums of a whole set of gradients that a replica holds at most while it sums what it owns: the
// running one, and beside it those on the stack, at most one a level of the tree where `owned` is a
// subtree. 1 where it owns one shard. Precondition: `owned` is not empty.
int max_held_sums(ShardRange owned, int num_shards);

}  // namespace sluice::detail
