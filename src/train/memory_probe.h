// Measures the peak of every step, and in the first two what one microbatch needs in a stage, from
// which it predicts what all of them need.
//
// Owns: readings of the ledger around actions. Does not own: the ledger (run/memory_ledger.h).
// Thread-safety: one rank's thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

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

  // The most that the microbatches of a row keep at once between their forwards and the ends of
  // their backwards, if all keep what the first of their stage did.
  std::int64_t peak_activations(const std::vector<Action>& row) const;
  // The most that an action of a microbatch needed while it ran, on top of what was held before it
  // or after it, whichever is more.
  std::int64_t transient() const { return transient_; }
  // The largest number of bytes held at once in the last step.
  std::int64_t step_peak() const { return step_peak_; }

 private:
  // What one microbatch keeps in a stage, in bytes.
  struct Kept {
    std::int64_t after_forward = 0;
    std::int64_t after_input = 0;  // from I to W
  };

  bool measures(const Action& action) const;

  MemoryLedger* ledger_;
  int rank_;
  int step_ = 0;
  std::int64_t live_before_ = 0;
  std::int64_t transient_ = 0, step_peak_ = 0;
  std::map<int, Kept> kept_;
  std::set<std::pair<int, ActionKind>> measured_;  // in this step
};

}  // namespace sluice
