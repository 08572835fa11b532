#include "plan/shard_tree.h"

#include <algorithm>

namespace sluice::detail {
namespace {

int middle(ShardRange range) { return range.begin + range.size() / 2; }

bool contains(ShardRange outer, ShardRange inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

template <typename Found>
void for_largest_subtrees(ShardRange tree, ShardRange range, const Found& found) {
  if (tree.end <= range.begin || range.end <= tree.begin) return;
  if (contains(range, tree)) {
    found(tree);
    return;
  }
  for_largest_subtrees({tree.begin, middle(tree)}, range, found);
  for_largest_subtrees({middle(tree), tree.end}, range, found);
}

}  // namespace

ShardRange shards_of_replica(int replica, int degree, int num_shards) {
  const int each = num_shards / degree;
  return {replica * each, (replica + 1) * each};
}

std::vector<ShardRange> largest_subtrees(ShardRange range, int num_shards) {
  std::vector<ShardRange> subtrees;
  for_largest_subtrees({0, num_shards}, range,
                       [&](ShardRange subtree) { subtrees.push_back(subtree); });
  return subtrees;
}

int num_additions_after(ShardRange subtree, ShardRange owned, int num_shards) {
  int additions = 0;
  for (ShardRange tree = {0, num_shards}; tree != subtree;) {
    additions += contains(owned, tree) && tree.end == subtree.end;
    if (subtree.begin < middle(tree))
      tree.end = middle(tree);
    else
      tree.begin = middle(tree);
  }
  return additions;
}

int max_held_sums(ShardRange owned, int num_shards) {
  int held = 0, most = 0;
  for (int shard = owned.begin; shard < owned.end; ++shard) {
    most = std::max(most, ++held);
    held -= num_additions_after({shard, shard + 1}, owned, num_shards);
  }
  return most;
}

}  // namespace sluice::detail
