// Checks and locks the folders that a run writes to.
#pragma once

#include <string>
#include <vector>

#include "command/resume.h"
#include "config/run_config.h"
#include "sluice/parts/group.h"
#include "sluice/plan.h"

namespace sluice {

// Throws Error(kUsage) if model.path or model.adapter is a checkpoint that this run could replace
// or remove. These are step N of checkpoint.folder up to training.steps, because a run may end
// early.
void require_model_is_kept(const RunConfig& config);

// Throws Error(kUsage) if the data include the metrics.jsonl that this run replaces.
void require_data_is_kept(const RunConfig& config);

// Warns of files of an earlier run that this run does not resume from or will replace. "" for none.
// resume.warnings lists skipped checkpoints.
std::string earlier_run_warning(const RunConfig& config, const ResumePoint& resume);

// Throws Error(kCheckpoint / kUsage) unless a checkpoint fits into checkpoint.folder and
// metrics.folder is writable. Leaves nothing behind.
void require_outputs(const RunConfig& config, const Plan& plan);

// Collective over all ranks. Checks before the first step that all processes share the folder,
// because a run may write its first checkpoint only at the end. Creates a folder there briefly.
// Throws the same Error(kCheckpoint) on every rank, naming the first rank that does not see it.
void require_shared_folder(const std::string& folder, const Group& world);

// Locks a run's folders against other runs. File systems without locks are not protected.
class RunFolders {
 public:
  RunFolders() = default;
  ~RunFolders();  // removes folders that it made and that are still empty
  RunFolders(const RunFolders&) = delete;
  RunFolders& operator=(const RunFolders&) = delete;

  // Creates and locks checkpoint.folder and metrics.folder where possible. Only the process that
  // writes there calls this. Waits briefly for a run that is about to end. Throws
  // Error(kCheckpoint) or Error(kUsage) if another run still uses a folder.
  void take(const RunConfig& config);

 private:
  std::vector<std::string> made_;  // parents first
  std::vector<int> locks_;
};

}  // namespace sluice
