// The trace of some steps of a run on all ranks (parts/observers.h).
//
// Owns: a recorder for each rank here, and the events that the ranks of other processes have sent.
// Does not own: the file.
// Thread-safety: recorder() and gather() are for the rank's thread; text() for the main thread,
// when the ranks have ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command/job.h"
#include "command/processes.h"
#include "sluice/parts/group.h"
#include "sluice/parts/observers.h"

namespace sluice {

class StepTrace {
 public:
  // Throws Error(kUsage) for steps that a run of num_steps, of which steps_done are done, does not
  // come to.
  StepTrace(const StepRange& steps, std::int64_t steps_done, std::int64_t num_steps,
            const LocalRanks& ranks);

  TraceRecorder& recorder(int rank) { return *recorders_.at(rank); }
  // True for the last step that is recorded, when `is_last` ends the run.
  bool ends_with(std::int64_t step, bool is_last) const;
  // Collective over `world`, all ranks, once: the speaker's process gets the events of all.
  void gather(const Group& world);
  // The events of all ranks; of those here, when nothing was gathered. "" without any.
  std::string text() const;

 private:
  const StepRange steps_;
  PerRank<std::optional<TraceRecorder>> recorders_;
  std::optional<std::vector<TraceEvent>> gathered_;  // by the speaker
};

}  // namespace sluice
