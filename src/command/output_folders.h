#pragma once

#include <string>
#include <vector>

#include "command/resume.h"
#include "config/run_config.h"
#include "sluice/parts/group.h"
#include "sluice/plan.h"

namespace sluice {

// Throws Error(kUsage) if model.path or model.adapter is a checkpoint that this run could replace,
// which are all steps up to training.steps.
void require_model_is_kept(const RunConfig& config);

// Throws Error(kUsage) if the data include the metrics.jsonl that this run replaces.
void require_data_is_kept(const RunConfig& config);

// Warns of earlier files that this run ignores or replaces. Returns "" for none.
std::string earlier_run_warning(const RunConfig& config, const ResumePoint& resume);

// Throws Error(kCheckpoint) unless a checkpoint fits on the disk, and Error(kUsage) unless
// metrics.folder is writable. Leaves nothing behind.
void require_outputs(const RunConfig& config, const Plan& plan);

// Collective over all ranks. Throws the same Error(kCheckpoint) on every rank unless all processes
// see the folder.
void require_shared_folder(const std::string& folder, const Group& world);

class RunFolders {
 public:
  RunFolders() = default;
  ~RunFolders();  // removes empty folders that take() created
  RunFolders(const RunFolders&) = delete;
  RunFolders& operator=(const RunFolders&) = delete;

  // Creates checkpoint.folder and metrics.folder, and locks them if the file system has locks. Only
  // the process that writes there calls this. Throws Error(kCheckpoint) or Error(kUsage) if another
  // run uses a folder.
  void take(const RunConfig& config);

 private:
  std::vector<std::string> made_;
  std::vector<int> locks_;
};

}  // namespace sluice
