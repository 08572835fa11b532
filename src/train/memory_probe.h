// Measures the peak of every step, and in the first two what one microbatch needs in a stage.
//
// Owns: readings of the ledger around actions. Does not own: the ledger (run/memory_ledger.h).
// Thread-safety: one rank's thread.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "sluice/action.h"

namespace sluice {

class MemoryLedger;

class MemoryProbe {
 public:
  // ledger may be null: everything is 0 then.
  MemoryProbe(MemoryLedger* ledger, int rank) : ledger_(ledger), rank_(rank) {}

  void begin_step();
  void before(const Action& action);
  void after(const Action& action);
  void end_step();

  // The most that the first microbatch kept from its forward in one stage.
  std::int64_t activations() const { return activations_; }
  // The most that an action of a microbatch needed while it ran, on top of what was held before it
  // or after it, whichever is more.
  std::int64_t transient() const { return transient_; }
  // The largest number of bytes held at once in the last step.
  std::int64_t step_peak() const { return step_peak_; }

 private:
  bool measures(const Action& action) const;

  MemoryLedger* ledger_;
  int rank_;
  int step_ = 0;
  std::int64_t live_before_ = 0;
  std::int64_t activations_ = 0, transient_ = 0, step_peak_ = 0;
  std::set<std::pair<int, ActionKind>> measured_;  // in this step
};

}  // namespace sluice
