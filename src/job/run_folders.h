// The folders in which a run writes, held against every other run that is alive.
//
// Owns: a lock on each, and those that it made for as long as they are empty. Does not own: what is
// written there. File systems without locks hold nothing. Thread-safety: one thread.
#pragma once

#include <string>
#include <vector>

#include "sluice/run_config.h"

namespace sluice {

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
