// The place where a run begins: at step 1, or after the step of a checkpoint.
//
// Owns: which checkpoint it is (checkpoint.resume), what may differ from it (checkpoint.allow),
// what is said of that. Does not own: loading it, what an earlier run left besides
// (output_folders.h). Thread-safety: pure functions, but for reading the folders.
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
  std::optional<Checkpoint> checkpoint;  // verified; none: the run begins
  StepsDone done;
  std::string run;                    // 16 hexadecimal digits: a new one, or the checkpoint's
  std::int64_t generation = 0;        // after that of whatever else is in the folder
  std::vector<std::string> warnings;  // checkpoints that were skipped, what differs
};

// A run that begins.
ResumePoint new_run();

// "auto": of checkpoint.folder the newest that verifies: the latest step of the latest generation.
// A run that begins beside others' checkpoints, or goes back to one that is not the newest, is of a
// generation after theirs. One that is not committed or damaged is
// skipped with a warning; where some are committed and all of those are damaged, nothing is thrown
// away silently: Error(kCheckpoint). "none": begins. A step, a path: that one, whatever it costs.
// Throws Error(kCheckpoint) when it is not there (with those that are), damaged, or of another
// model or other data that are not allowed to differ, also where nothing is left to do. Settings
// that differ are one warning. Reads all of the checkpoint, on as many threads as there are cores.
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
