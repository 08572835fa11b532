// Traces some steps on all ranks (parts/observers.h). Call text() after the ranks have ended.
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
  // Throws Error(kUsage) for steps that the run does not reach.
  StepTrace(const StepRange& steps, std::int64_t steps_done, std::int64_t num_steps,
            const LocalRanks& ranks);

  TraceRecorder& recorder(int rank) { return *recorders_.at(rank); }
  bool ends_with(std::int64_t step, bool is_last) const;
  // Collective over all ranks. Sends the events to rank 0's process.
  void gather(const Group& world);
  // Returns only the local ranks' events if gather() was not called. May be "".
  std::string text() const;

 private:
  const StepRange steps_;
  PerRank<std::optional<TraceRecorder>> recorders_;
  std::optional<std::vector<TraceEvent>> gathered_;
};

}  // namespace sluice
