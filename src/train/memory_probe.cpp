#include "train/memory_probe.h"

#include <algorithm>

#include "run/memory_ledger.h"

namespace sluice {

void MemoryProbe::begin_step() {
  if (!ledger_) return;
  step_peak_ = 0;
  ledger_->reset_peak(rank_);
}

// The first forward, and the first whole backward, of every stage of this rank in the first step. A
// split backward spreads what it needs over two actions and is left out.
bool MemoryProbe::measures(const Action& action) const {
  const bool kind = action.kind == ActionKind::kForward || action.kind == ActionKind::kBackward;
  return ledger_ && first_step_ && kind && measured_.count({action.stage, action.kind}) == 0;
}

void MemoryProbe::before(const Action& action) {
  if (!measures(action)) return;
  step_peak_ = std::max(step_peak_, ledger_->peak_bytes(rank_));
  ledger_->reset_peak(rank_);
  live_before_ = ledger_->live_bytes(rank_);
}

void MemoryProbe::after(const Action& action) {
  if (!measures(action)) return;
  const std::int64_t live = ledger_->live_bytes(rank_);
  const std::int64_t peak = ledger_->peak_bytes(rank_);
  if (action.kind == ActionKind::kForward)
    activations_ = std::max(activations_, live - live_before_);
  transient_ = std::max(transient_, peak - std::max(live, live_before_));
  measured_.insert({action.stage, action.kind});
}

void MemoryProbe::end_step() {
  if (!ledger_) return;
  step_peak_ = std::max(step_peak_, ledger_->peak_bytes(rank_));
  first_step_ = false;
}

}  // namespace sluice
