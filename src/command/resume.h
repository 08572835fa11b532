// Decides where a run starts (checkpoint.resume), and how it may differ from that checkpoint
// (checkpoint.allow).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command/fingerprints.h"
#include "config/run_config.h"
#include "sluice/checkpoint.h"
#include "sluice/data.h"
#include "sluice/parts/group.h"

namespace sluice {

struct ResumePoint {
  std::optional<Checkpoint> checkpoint;  // verified checkpoint; none: start at step 1
  StepsDone done;
  std::string run;
  // Orders checkpoints by age, so that "auto" finds the newest. Higher than the generation of every
  // checkpoint that is newer than `checkpoint`.
  std::int64_t generation = 0;
  std::vector<std::string> warnings;
};

ResumePoint new_run();

// Finds the checkpoint that checkpoint.resume selects. "auto" takes the newest valid one, by
// generation and then by step, and skips invalid ones with a warning. If all committed checkpoints
// are damaged, it throws instead of starting at step 1.
//
// Throws Error(kCheckpoint) for a checkpoint that is missing, damaged, or of another model or other
// data (unless allowed), even if no steps are left. Different settings only cause a warning.
ResumePoint find_resume_point(const RunConfig& config, const RunFingerprints& made_of);

bool is_finished(const RunConfig& config, const ResumePoint& resume);

// Throws Error(kUsage) if a step that is still to run has a valid checkpoint and checkpoint.commit
// = "marker", which never replaces checkpoints.
void require_free_steps(const RunConfig& config, const ResumePoint& resume);

// Collective over all ranks. Throws Error(kCheckpoint) on every rank if the processes chose
// different checkpoints.
void require_same_resume_point(const ResumePoint& resume, const Group& world);

}  // namespace sluice
