#include "train/memory_probe.h"

#include <algorithm>

#include "run/memory_ledger.h"

namespace sluice {

void MemoryProbe::begin_step() {
  if (!ledger_) return;
  ++step_;
  step_peak_ = 0;
  measured_.clear();
  ledger_->reset_peak(rank_);
}

// The first of each kind in every stage of this rank. Of the second step too: in the first, the
// gradients of the first backward become the sums, from then on they are needed beside them.
// Overlapped pairs mix two microbatches and are left out.
bool MemoryProbe::measures(const Action& action) const {
  return ledger_ && step_ <= 2 && is_compute(action.kind) && action.kind != ActionKind::kOverlap &&
         measured_.count({action.stage, action.kind}) == 0;
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
  Kept& kept = kept_[action.stage];
  if (action.kind == ActionKind::kForward) kept.after_forward = live - live_before_;
  if (action.kind == ActionKind::kBackwardInput)
    kept.after_input = std::max<std::int64_t>(0, kept.after_forward + live - live_before_);
  transient_ = std::max(transient_, peak - std::max(live, live_before_));
  measured_.insert({action.stage, action.kind});
}

std::int64_t MemoryProbe::peak_activations(const std::vector<Action>& row) const {
  std::int64_t held = 0, most = 0;
  auto count = [&](const Action& action) {
    const auto found = kept_.find(action.stage);
    if (found == kept_.end()) return;
    const Kept& kept = found->second;
    switch (action.kind) {
      case ActionKind::kForward:
        held += kept.after_forward;
        break;
      case ActionKind::kBackwardInput:
        held += kept.after_input - kept.after_forward;
        break;
      case ActionKind::kBackward:
        held -= kept.after_forward;
        break;
      case ActionKind::kBackwardWeight:
        held -= kept.after_input;
        break;
      default:
        break;
    }
    most = std::max(most, held);
  };
  for (const Action& action : row) {
    if (action.kind == ActionKind::kOverlap) {
      count(action.overlap_forward());
      count(action.overlap_backward());
    } else if (is_compute(action.kind)) {
      count(action);
    }
  }
  return most;
}

void MemoryProbe::end_step() {
  if (ledger_) step_peak_ = std::max(step_peak_, ledger_->peak_bytes(rank_));
}

}  // namespace sluice
