// The place where a run starts: at step 1, or after the step of a checkpoint.
//
// Owns: the choice of the checkpoint (checkpoint.resume), the differences that are allowed
// (checkpoint.allow), the messages about both. Does not own: loading it, other remains of an
// earlier run (output_folders.h). Thread-safety: pure functions, but for reading the folders.
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
  std::optional<Checkpoint> checkpoint;  // verified; none: the run starts afresh
  StepsDone done;
  std::string run;                    // 16 hexadecimal digits: a new one, or the checkpoint's
  std::int64_t generation = 0;        // after those of all others in the folder
  std::vector<std::string> warnings;  // checkpoints that were skipped, differences
};

// The start of a new run.
ResumePoint new_run();

// The start that checkpoint.resume asks for. "auto": the newest checkpoint of checkpoint.folder
// that verifies, that is the latest step of the latest generation. A checkpoint that is not
// committed or damaged is skipped with a warning; if some are committed and all of these are
// damaged, nothing is replaced silently: Error(kCheckpoint). A run that starts beside others'
// checkpoints, or goes back to one that is not the newest, has a later generation than theirs.
// "none": starts afresh. A step or a path: that checkpoint, even if newer ones exist. Throws
// Error(kCheckpoint) when it is missing (with those that exist), damaged, or of another model or
// other data that are not allowed to differ, even if nothing is left to do. Settings that differ
// give one warning. Reads all of the checkpoint, on as many threads as there are cores.
ResumePoint find_resume_point(const RunConfig& config, const RunFingerprints& made_of);

// The last step is done.
bool is_finished(const RunConfig& config, const ResumePoint& resume);

// Throws Error(kUsage) when a step that is left is committed in checkpoint.folder and verifies:
// with checkpoint.commit = "marker" nothing that is committed is replaced.
void require_free_steps(const RunConfig& config, const ResumePoint& resume);

// Collective over all ranks, whose processes each looked for themselves. Throws Error(kCheckpoint)
// on every rank when they came to different checkpoints.
void require_same_resume_point(const ResumePoint& resume, const Group& world);

}  // namespace sluice
