// The folders that a run writes in: what an earlier run left there and this one replaces, that what
// this one writes fits there, that all machines see them, and that no other run that is alive
// writes there.
//
// Does not own: writing the files.
// Thread-safety: the collective check is one call a rank, each on its own thread; the rest is for
// the main thread.
#pragma once

#include <string>
#include <vector>

#include "command/resume.h"
#include "config/run_config.h"
#include "sluice/parts/group.h"
#include "sluice/plan.h"

namespace sluice {

// Throws Error(kUsage) when model.path or model.adapter is a folder that this run would replace
// with its own checkpoint, or remove as an older one: step N of checkpoint.folder, N being at most
// training.steps, since a run may end early.
void require_model_is_kept(const RunConfig& config);

// Throws Error(kUsage) when data.files has the metrics.jsonl that this run would replace.
void require_data_is_kept(const RunConfig& config);

// A warning about remains of an earlier run that this one does not resume from, or will replace; ""
// for none. Checkpoints that were skipped are in resume.warnings.
std::string earlier_run_warning(const RunConfig& config, const ResumePoint& resume);

// Throws Error(kCheckpoint / kUsage) unless a checkpoint fits into checkpoint.folder and
// metrics.folder can be written. Leaves nothing behind.
void require_outputs(const RunConfig& config, const Plan& plan);

// Collective over all ranks: that their processes see one folder, before the first step, since the
// first checkpoint may be the last thing that a run does. The folder, or its nearest parent that is
// there, gets a folder for a moment. Throws Error(kCheckpoint), the same on every rank, naming the
// first rank that does not see it.
void require_shared_folder(const std::string& folder, const Group& world);

// The folders of a run, held against every other run. Owns a lock on each, and those that it made
// for as long as they are empty. File systems without locks hold nothing.
class RunFolders {
 public:
  RunFolders() = default;
  ~RunFolders();  // folders that it made and in which nothing is go again
  RunFolders(const RunFolders&) = delete;
  RunFolders& operator=(const RunFolders&) = delete;

  // Makes checkpoint.folder and metrics.folder where that is possible, and holds them: for the one
  // process of a run that writes there. Waits a moment for a run that is about to end. Throws
  // Error(kCheckpoint) or Error(kUsage) naming the folder in which another run is alive.
  void take(const RunConfig& config);

 private:
  std::vector<std::string> made_;  // parents first
  std::vector<int> locks_;
};

}  // namespace sluice
