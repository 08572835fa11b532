// Which rank holds how many bytes of tensors, when ranks are threads of one process.
//
// Owns: a table of the storages that were allocated within a Scope; live and peak bytes per rank.
// Does not own: memory. It listens to LibTorch's allocators (CPU and CUDA), so it counts what is
// really allocated and freed, not what anybody believes.
//
// A storage belongs to the rank on whose thread it was allocated until transfer() hands it on; it
// is taken off its holder whoever frees it. A storage that two ranks refer to counts for the last
// one that received it. Memory that kernels use inside one operator without a tensor is not seen.
//
// Thread-safety: all members of MemoryLedger may be called from any thread.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "sluice/parts/executor_observer.h"

namespace sluice {

class MemoryLedger {
 public:
  explicit MemoryLedger(int num_ranks) : ranks_(static_cast<std::size_t>(num_ranks)) {}
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // While it lives, allocations on this thread are `rank`'s, and frees on this thread are seen.
  // The ledger must outlive it.
  class Scope {
   public:
    Scope(MemoryLedger& ledger, int rank);

   private:
    c10::DebugInfoGuard guard_;
  };

  // The storage at this address (at::Tensor::storage().data()) is now held by `rank`. Unknown
  // addresses, such as mapped files, are nobody's and stay so.
  void transfer(const void* storage, int rank);

  std::int64_t live_bytes(int rank) const;
  // The largest live_bytes(rank) since the last reset_peak(rank), or ever.
  std::int64_t peak_bytes(int rank) const;
  void reset_peak(int rank);

 private:
  class Listener;
  struct Holding {
    std::int64_t bytes = 0;
    int rank = 0;
  };
  struct RankBytes {
    std::int64_t live = 0;
    std::int64_t peak = 0;
  };

  void allocated(const void* storage, std::int64_t bytes, int rank);
  void freed(const void* storage);
  void drop(const Holding& holding);
  void take(int rank, std::int64_t bytes);

  mutable std::mutex mutex_;
  std::unordered_map<const void*, Holding> holdings_;
  std::vector<RankBytes> ranks_;
};

// Tells the ledger what arrives on `rank` from other ranks.
class LedgerObserver final : public ExecutorObserver {
 public:
  LedgerObserver(MemoryLedger& ledger, int rank) : ledger_(ledger), rank_(rank) {}
  void arrived(const Action& action, const std::vector<at::Tensor>& tensors) override;

 private:
  MemoryLedger& ledger_;
  int rank_;
};

}  // namespace sluice
