// The schedule that a configuration asks for, and whether it fits the rest of it.
// Thread-safety: pure functions, but for reading the file.
#pragma once

#include <string>

#include "sluice/partition.h"
#include "sluice/run_config.h"
#include "sluice/schedule.h"

namespace sluice::detail {

// Whether the key "section.name" was given anywhere.
bool is_given(const RunConfig& config, const std::string& key);

// By name, with the stages where the partition has them: the builder's ranks are renumbered.
// Throws Error(kUsage) when no numbering of the ranks gives that placement.
Schedule named_schedule(const RunConfig& config, const std::string& name,
                        const Partition& partition);

// From pipeline_parallel_schedule_csv, with the stage-to-rank map of the configuration.
Schedule schedule_of_file(const RunConfig& config);

// Throws Error(kUsage) for another number of ranks or microbatches than the configuration has.
void require_fits(const RunConfig& config, const Schedule& schedule);

}  // namespace sluice::detail
