#include "sluice/parts/memory_ledger.h"

#include <algorithm>

namespace sluice {

// What LibTorch calls on the thread that allocates or frees.
class MemoryLedger::Listener : public c10::MemoryReportingInfoBase {
 public:
  Listener(MemoryLedger& ledger, int rank) : ledger_(ledger), rank_(rank) {}

  void reportMemoryUsage(void* storage, std::int64_t bytes, std::size_t /*total_allocated*/,
                         std::size_t /*total_reserved*/, c10::Device /*device*/) override {
    if (bytes > 0) {
      ledger_.allocated(storage, bytes, rank_);
    } else {
      ledger_.freed(storage);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

 private:
  MemoryLedger& ledger_;
  int rank_;
};

MemoryLedger::Scope::Scope(MemoryLedger& ledger, int rank)
    : guard_(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Listener>(ledger, rank)) {}

void MemoryLedger::transfer(const void* storage, int rank) {
  const std::lock_guard lock(mutex_);
  const auto found = holdings_.find(storage);
  if (found == holdings_.end() || found->second.rank == rank) return;
  drop(found->second);
  found->second.rank = rank;
  take(rank, found->second.bytes);
}

std::int64_t MemoryLedger::live_bytes(int rank) const {
  const std::lock_guard lock(mutex_);
  return ranks_[rank].live;
}

std::int64_t MemoryLedger::peak_bytes(int rank) const {
  const std::lock_guard lock(mutex_);
  return ranks_[rank].peak;
}

void MemoryLedger::reset_peak(int rank) {
  const std::lock_guard lock(mutex_);
  RankBytes& bytes = ranks_[rank];
  bytes.peak = bytes.live;
}

void MemoryLedger::allocated(const void* storage, std::int64_t bytes, int rank) {
  const std::lock_guard lock(mutex_);
  // An address seen before was freed on a thread outside every Scope.
  Holding& holding = holdings_[storage];
  if (holding.bytes != 0) drop(holding);
  holding = {bytes, rank};
  take(rank, bytes);
}

void MemoryLedger::freed(const void* storage) {
  const std::lock_guard lock(mutex_);
  const auto found = holdings_.find(storage);
  if (found == holdings_.end()) return;
  drop(found->second);
  holdings_.erase(found);
}

void MemoryLedger::drop(const Holding& holding) { ranks_[holding.rank].live -= holding.bytes; }

void MemoryLedger::take(int rank, std::int64_t bytes) {
  RankBytes& held = ranks_[rank];
  held.live += bytes;
  held.peak = std::max(held.peak, held.live);
}

void LedgerObserver::arrived(const Action& /*action*/, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) ledger_.transfer(tensor.storage().data(), rank_);
  }
}

}  // namespace sluice
