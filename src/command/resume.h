// Decides where a run starts: at step 1 or after a checkpoint (checkpoint.resume), and which
// differences from the checkpoint are allowed (checkpoint.allow).
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
  std::optional<Checkpoint> checkpoint;  // verified; none: start at step 1
  StepsDone done;
  std::string run;                    // 16 hexadecimal digits, kept when resuming
  std::int64_t generation = 0;        // later than that of any abandoned checkpoint in the folder
  std::vector<std::string> warnings;  // skipped checkpoints and differences
};

ResumePoint new_run();

// Finds the checkpoint that checkpoint.resume names:
//   - "auto": the newest one that verifies, by generation and then by step. Skips uncommitted and
//     damaged ones with a warning. If all committed ones are damaged, throws Error(kCheckpoint).
//   - "none": no checkpoint.
//   - A step or path: that checkpoint, even if newer ones exist.
// A run that does not continue the newest checkpoint of the folder gets a later generation. Throws
// Error(kCheckpoint) for a checkpoint that is missing, damaged, or of another model or other data
// (unless allowed), even if no steps are left. Different settings only give a warning. Reads the
// whole checkpoint with one thread per core.
ResumePoint find_resume_point(const RunConfig& config, const RunFingerprints& made_of);

bool is_finished(const RunConfig& config, const ResumePoint& resume);

// Throws Error(kUsage) if a remaining step already has a valid checkpoint. With checkpoint.commit =
// "marker" a committed checkpoint is never replaced.
void require_free_steps(const RunConfig& config, const ResumePoint& resume);

// Collective over all ranks. Throws Error(kCheckpoint) on every rank if the processes found
// different checkpoints.
void require_same_resume_point(const ResumePoint& resume, const Group& world);

}  // namespace sluice
