// Predicts the extra memory of data parallelism.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sluice/options.h"
#include "sluice/parts/action.h"

namespace sluice::detail {

// The most gradient sums that any replica has open: the running one, and earlier shards with exact
// reduction (shard_tree.h).
int open_sums(const DataParallel& options);

struct ExchangedParameters {
  std::vector<std::int64_t> trained, frozen;  // elements, in layer order
  std::int64_t bytes_of_number = 4;           // of a parameter element; gradients are float32
};

// Bytes of one stage on the replica that needs most. Ranks of one process do not copy messages, so
// a message counts for its sender.
struct ReplicaBytes {
  std::int64_t gradients = 0;        // one sum of all gradients
  std::int64_t reduced = 0;          // from REDUCE_GRAD until it ends
  std::int64_t finishing = 0;        // extra while the reduction ends
  std::int64_t updated = 0;          // from UPDATE on
  std::int64_t trained_numbers = 0;  // elements that the replica updates
  std::int64_t trained_share = 0,
               frozen_share = 0;  // everything, if nothing is sharded
  std::int64_t gathered = 0;      // from UNSHARD to RESHARD
};
ReplicaBytes replica_bytes(const ExchangedParameters& stage, const DataParallel& options);

// Bytes in exchange between replicas while a rank's row runs.
class RowExchange {
 public:
  explicit RowExchange(const std::vector<ReplicaBytes>& stages) : stages_(stages) {}
  // Returns the peak at the moment when `action` starts. While it runs, the value is now(). Call it
  // twice for a pair.
  std::int64_t next(const Action& action);
  std::int64_t now() const { return now_; }
  std::int64_t most_gathered() const { return most_gathered_; }

 private:
  std::int64_t use(int stage);

  const std::vector<ReplicaBytes>& stages_;
  std::int64_t now_ = 0, gathered_ = 0, most_gathered_ = 0;
  std::map<int, std::int64_t> messages_;  // UNSHARDs that no action has waited for
  std::map<int, std::int64_t> reducing_;
};

}  // namespace sluice::detail
