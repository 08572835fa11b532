// Predicts the extra memory of data-parallel replicas.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sluice/options.h"
#include "sluice/parts/action.h"

namespace sluice::detail {

// Returns the most gradient sums that a replica holds at once: the running sum and, with exact
// reduction, those of earlier shards (shard_tree.h).
int open_sums(const DataParallel& options);

struct ExchangedParameters {
  std::vector<std::int64_t> trained, frozen;  // elements, in layer order
  std::int64_t bytes_of_number = 4;           // of a parameter's element; gradients are float32
};

// Bytes of one stage on the replica that needs most. Ranks of one process share messages without a
// copy, so only the sender counts them.
struct ReplicaBytes {
  std::int64_t gradients = 0;        // the sum of all gradients
  std::int64_t reduced = 0;          // from REDUCE_GRAD until it ends
  std::int64_t finishing = 0;        // extra while the reduction ends
  std::int64_t updated = 0;          // updated parameters to send, from UPDATE on
  std::int64_t trained_numbers = 0;  // elements that the replica updates
  std::int64_t trained_share = 0,
               frozen_share = 0;  // parameters of the replica's shard, or all if not sharded
  std::int64_t gathered = 0;      // from UNSHARD to RESHARD

  void add(const ReplicaBytes& more);
};
ReplicaBytes replica_bytes(const ExchangedParameters& stage, const DataParallel& options);

// Bytes being exchanged between replicas while a rank runs.
class RowExchange {
 public:
  explicit RowExchange(const std::vector<ReplicaBytes>& stages) : stages_(stages) {}
  // Advances to `action`. Returns the peak bytes during the exchanges at the action's start, which
  // now() may be below because the start can free messages. Afterwards now() is what is held while
  // the action runs. For an overlapped pair, call it once for the forward and once for the
  // backward.
  std::int64_t next(const Action& action);
  std::int64_t now() const { return now_; }
  std::int64_t most_gathered() const { return most_gathered_; }

 private:
  std::int64_t use(int stage);

  const std::vector<ReplicaBytes>& stages_;
  std::int64_t now_ = 0, gathered_ = 0, most_gathered_ = 0;
  std::map<int, std::int64_t>
      messages_;  // [stage]: bytes of an UNSHARD that no action has used yet
  std::map<int, std::int64_t> reducing_;
};

}  // namespace sluice::detail
