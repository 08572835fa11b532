#include "plan/predict/replica_memory.h"

#include <algorithm>
#include <utility>

#include "base/saturate.h"
#include "plan/block_shares.h"
#include "plan/data_parallel.h"
#include "plan/shard_tree.h"

namespace sluice::detail {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;  // as in src/optim/packed_parts.h

std::int64_t sum_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum = saturating_add(sum, size);
  return sum;
}

// Returns the most subtree sums (shard_tree.h) that any replica sends.
std::int64_t most_subtrees(const DataParallel& options) {
  if (!sums_in_shards(options)) return 1;
  std::size_t most = 1;
  for (int replica = 0; replica < options.degree; ++replica) {
    const ShardRange owned = shards_of_replica(replica, options.degree, options.num_shards());
    most = std::max(most, largest_subtrees(owned, options.num_shards()).size());
  }
  return static_cast<std::int64_t>(most);
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

void ReplicaBytes::add(const ReplicaBytes& more) {
  for (std::int64_t ReplicaBytes::*const bytes :
       {&ReplicaBytes::gradients, &ReplicaBytes::reduced, &ReplicaBytes::finishing,
        &ReplicaBytes::updated, &ReplicaBytes::trained_numbers, &ReplicaBytes::trained_share,
        &ReplicaBytes::frozen_share, &ReplicaBytes::gathered})
    this->*bytes = saturating_add(this->*bytes, more.*bytes);
}

ReplicaBytes replica_bytes(const ExchangedParameters& stage, const DataParallel& options) {
  const std::int64_t trained = sum_of(stage.trained), width = stage.bytes_of_number;
  ReplicaBytes bytes;
  bytes.gradients = saturating_multiply(kFloat, trained);
  bytes.trained_numbers = trained;
  bytes.trained_share = saturating_multiply(width, trained);
  bytes.frozen_share = saturating_multiply(width, sum_of(stage.frozen));
  if (options.degree == 1) return bytes;
  const auto shares = block_shares(stage.trained, options.degree);
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  if (options.reduction == Reduction::kFast) {
    // A reduction copies all gradients. As it ends, it also holds the sum of one bucket.
    std::int64_t largest = kBucketBytes;
    for (const std::int64_t size : stage.trained)
      largest = std::max(largest, saturating_multiply(kFloat, size));
    bytes.reduced = bytes.gradients;
    bytes.finishing = std::min(bytes.gradients, largest);
  } else {
    // Each replica sends the blocks that other replicas own and receives results in the same
    // memory.
    bytes.reduced =
        saturating_multiply(most_subtrees(options) * kFloat, saturating_subtract(trained, *least));
  }
  if (!options.zero1 && !options.zero3) return bytes;
  if (options.zero3) {
    bytes.gathered = saturating_add(bytes.trained_share, bytes.frozen_share);
    const auto frozen = block_shares(stage.frozen, options.degree);
    bytes.frozen_share =
        saturating_multiply(width, *std::max_element(frozen.begin(), frozen.end()));
  }
  bytes.trained_numbers = *most;
  bytes.trained_share = saturating_multiply(width, *most);
  if (!options.zero3) bytes.updated = bytes.trained_share;
  return bytes;
}

// The first use of a gathered stage frees this rank's part of the message. Returns the peak bytes.
std::int64_t RowExchange::use(int stage) {
  const auto found = messages_.find(stage);
  if (found == messages_.end()) return now_;
  const std::int64_t whole = stages_[static_cast<std::size_t>(stage)].gathered;
  now_ = saturating_add(now_, whole);
  gathered_ = saturating_add(gathered_, whole);
  most_gathered_ = std::max(most_gathered_, gathered_);
  const std::int64_t most = now_;
  now_ = saturating_subtract(now_, found->second);
  messages_.erase(found);
  return most;
}

std::int64_t RowExchange::next(const Action& action) {
  if (stages_.empty() || action.stage < 0) return now_;
  const ReplicaBytes& stage = stages_.at(static_cast<std::size_t>(action.stage));
  std::int64_t most = now_;
  switch (action.kind) {
    case ActionKind::kUnshard:
      messages_[action.stage] = saturating_add(stage.trained_share, stage.frozen_share);
      now_ = saturating_add(now_, messages_[action.stage]);
      break;
    case ActionKind::kReshard:
      most = use(action.stage);
      now_ = saturating_subtract(now_, stage.gathered);
      gathered_ = saturating_subtract(gathered_, stage.gathered);
      break;
    case ActionKind::kReduceGrad: {
      // With one reduction per microbatch, each has separate gradients. The gradient sum counts the
      // first one's.
      std::int64_t& reducing = reducing_[action.stage];
      const bool is_another = action.microbatch >= 0 && reducing > 0;
      const std::int64_t more =
          saturating_add(stage.reduced, is_another ? stage.gradients : std::int64_t{0});
      reducing = saturating_add(reducing, more);
      now_ = saturating_add(now_, more);
      break;
    }
    case ActionKind::kPartialNorm:
      most = saturating_add(now_, stage.finishing);
      now_ = saturating_subtract(now_, std::exchange(reducing_[action.stage], 0));
      break;
    case ActionKind::kUpdate:
      now_ = saturating_add(now_, stage.updated);
      break;
    default:
      if (is_compute(action.kind)) most = use(action.stage);
      break;
  }
  return std::max(most, now_);
}

}  // namespace sluice::detail
