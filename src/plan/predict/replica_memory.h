// Memory that a rank holds because there are replicas: open sums of shards, its share of what is
// sharded, and what is exchanged.
//
// Does not own: the memory of a rank of one pipeline (memory.h). Thread-safety: pure functions,
// values.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sluice/options.h"
#include "sluice/parts/action.h"

namespace sluice::detail {

// Sums of all its gradients that a rank has open at most, of whichever replica: the running one,
// and with exact reductions those of the shards before it (shard_tree.h).
int open_sums(const DataParallel& options);

// Parameters of one stage that replicas exchange.
struct ExchangedParameters {
  std::vector<std::int64_t> trained, frozen;  // their numbers, in the order of layers
  std::int64_t bytes_of_number = 4;  // bytes of a parameter's number; gradients have float32
};

// Bytes of one stage, of whichever replica has most. A rank's own are those that it has written,
// also when others read them: among the ranks of one process nothing is copied.
struct ReplicaBytes {
  std::int64_t gradients = 0;        // one sum of all
  std::int64_t reduced = 0;          // from REDUCE_GRAD until its end
  std::int64_t finishing = 0;        // more when that ends
  std::int64_t updated = 0;          // from UPDATE on
  std::int64_t trained_numbers = 0;  // number of elements that it updates
  std::int64_t trained_share = 0,
               frozen_share = 0;  // shares of parameters; all of them if nothing is sharded
  std::int64_t gathered = 0;      // from UNSHARD to RESHARD
};
ReplicaBytes replica_bytes(const ExchangedParameters& stage, const DataParallel& options);

// Bytes that are exchanged along a rank's row, beside everything else.
class RowExchange {
 public:
  explicit RowExchange(const std::vector<ReplicaBytes>& stages) : stages_(stages) {}
  // Takes the next action, the halves of a pair one after the other. Returns the most that is there
  // when it starts; now() while it runs.
  std::int64_t next(const Action& action);
  std::int64_t now() const { return now_; }
  std::int64_t most_gathered() const { return most_gathered_; }

 private:
  std::int64_t use(int stage);

  const std::vector<ReplicaBytes>& stages_;  // stages of the program
  std::int64_t now_ = 0, gathered_ = 0, most_gathered_ = 0;
  std::map<int, std::int64_t> messages_;  // bytes of UNSHARDs that nothing has waited for
  std::map<int, std::int64_t> reducing_;  // bytes of stages in reduction
};

}  // namespace sluice::detail
