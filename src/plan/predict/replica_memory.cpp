#include "plan/predict/replica_memory.h"

#include <algorithm>

#include "base/saturate.h"
#include "plan/data_parallel.h"
#include "plan/shard_tree.h"

namespace sluice::detail {
namespace {

constexpr std::int64_t kNumbersOfABlock = 16384;

std::int64_t divided_up(std::int64_t value, std::int64_t by) {
  return value / by + (value % by != 0);
}

}  // namespace

int open_sums(const DataParallel& options) {
  if (!sums_in_shards(options)) return 1;
  int most = 1;
  for (int replica = 0; replica < options.degree; ++replica) {
    const ShardRange owned = shards_of_replica(replica, options.degree, options.num_shards());
    most = std::max(most, max_held_sums(owned, options.num_shards()));
  }
  return most;
}

std::int64_t bytes_of_share(std::int64_t bytes, std::int64_t bytes_per_number, int degree) {
  if (degree == 1) return bytes;
  const std::int64_t block = kNumbersOfABlock * bytes_per_number;
  return std::min(bytes, saturating_multiply(divided_up(divided_up(bytes, degree), block), block));
}

std::int64_t gathered_bytes(const std::vector<Action>& row,
                            const std::vector<std::int64_t>& stage_bytes) {
  std::int64_t gathered = 0, most = 0;
  for (const Action& action : row) {
    if (action.kind == ActionKind::kUnshard)
      gathered = saturating_add(gathered, stage_bytes[action.stage]);
    if (action.kind == ActionKind::kReshard)
      gathered = saturating_subtract(gathered, stage_bytes[action.stage]);
    most = std::max(most, gathered);
  }
  return most;
}

}  // namespace sluice::detail
