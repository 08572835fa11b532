#include "sluice/parts/observers.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace sluice {

struct MemoryLedger::Table {
  struct Holding {
    std::int64_t bytes = 0;
    int rank = 0;
  };
  struct RankBytes {
    std::int64_t live = 0, peak = 0;
  };

  std::mutex mutex;
  std::unordered_map<const void*, Holding> holdings;
  std::vector<RankBytes> ranks;

  void allocated(const void* storage, std::int64_t bytes, int rank) {
    const std::lock_guard lock(mutex);
    // A known address was freed outside every Scope, so its entry is stale.
    Holding& holding = holdings[storage];
    if (holding.bytes != 0) drop(holding);
    holding = {bytes, rank};
    take(rank, bytes);
  }
  void freed(const void* storage) {
    const std::lock_guard lock(mutex);
    const auto found = holdings.find(storage);
    if (found == holdings.end()) return;
    drop(found->second);
    holdings.erase(found);
  }
  void drop(const Holding& holding) { ranks[holding.rank].live -= holding.bytes; }
  void take(int rank, std::int64_t bytes) {
    RankBytes& held = ranks[rank];
    held.live += bytes;
    held.peak = std::max(held.peak, held.live);
  }
};

// LibTorch calls the listener on the thread that allocates or frees.
class MemoryLedger::Listener : public c10::MemoryReportingInfoBase {
 public:
  Listener(Table& table, int rank) : table_(table), rank_(rank) {}

  void reportMemoryUsage(void* storage, std::int64_t bytes, std::size_t /*total_allocated*/,
                         std::size_t /*total_reserved*/, c10::Device /*device*/) override {
    if (bytes > 0) {
      table_.allocated(storage, bytes, rank_);
    } else {
      table_.freed(storage);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

 private:
  Table& table_;
  int rank_;
};

MemoryLedger::MemoryLedger(int num_ranks) : table_(std::make_unique<Table>()) {
  table_->ranks.resize(static_cast<std::size_t>(num_ranks));
}
MemoryLedger::~MemoryLedger() = default;

MemoryLedger::Scope::Scope(MemoryLedger& ledger, int rank)
    : guard_(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Listener>(*ledger.table_, rank)) {
}

void MemoryLedger::transfer(const void* storage, int rank) {
  const std::lock_guard lock(table_->mutex);
  const auto found = table_->holdings.find(storage);
  if (found == table_->holdings.end() || found->second.rank == rank) return;
  table_->drop(found->second);
  found->second.rank = rank;
  table_->take(rank, found->second.bytes);
}

std::int64_t MemoryLedger::live_bytes(int rank) const {
  const std::lock_guard lock(table_->mutex);
  return table_->ranks[rank].live;
}

std::int64_t MemoryLedger::peak_bytes(int rank) const {
  const std::lock_guard lock(table_->mutex);
  return table_->ranks[rank].peak;
}

void MemoryLedger::reset_peak(int rank) {
  const std::lock_guard lock(table_->mutex);
  Table::RankBytes& bytes = table_->ranks[rank];
  bytes.peak = bytes.live;
}

}  // namespace sluice
