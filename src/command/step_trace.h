// Traces some steps on all ranks (parts/observers.h). Ranks call recorder() and gather() from their
// threads. Call text() after the ranks have ended.
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
  // Throws Error(kUsage) if the run does not reach these steps.
  StepTrace(const StepRange& steps, std::int64_t steps_done, std::int64_t num_steps,
            const LocalRanks& ranks);

  TraceRecorder& recorder(int rank) { return *recorders_.at(rank); }
  // True for the last recorded step. `is_last`: the run ends with this step.
  bool ends_with(std::int64_t step, bool is_last) const;
  // Collective over all ranks, once. Sends all events to the process of rank 0.
  void gather(const Group& world);
  // The events of all ranks, or only the local ones if nothing was gathered. "" if there are none.
  std::string text() const;

 private:
  const StepRange steps_;
  PerRank<std::optional<TraceRecorder>> recorders_;
  std::optional<std::vector<TraceEvent>> gathered_;  // only with rank 0
};

}  // namespace sluice
