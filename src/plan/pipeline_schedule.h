// The split and the schedule that the options of a pipeline ask for, made to fit each other.
//
// Does not own: lowering and proving them. Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

struct SplitSchedule {
  Partition partition;
  Schedule schedule;               // its stages where the partition has them
  std::vector<std::string> notes;  // what was chosen, or gave way
};

// With a schedule by name, or the one that suits the split. Throws Error(kUsage) also when no
// numbering of the schedule's ranks gives the placement of the partition.
SplitSchedule split_with_named_schedule(const ModelSpec& model, const PipelineOptions& options);

// The schedule of this name, its ranks numbered as the partition has its stages. Throws as above.
Schedule named_schedule(const Partition& partition, const PipelineOptions& options,
                        const ScheduleName& name);

// Around options.own_schedule. Throws Error(kUsage) for another number of ranks or microbatches
// than the options say. Precondition: it is given, and proven.
SplitSchedule split_with_own_schedule(const ModelSpec& model, const PipelineOptions& options);

}  // namespace sluice::detail
