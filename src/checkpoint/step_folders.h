// The folders step-<number> of a checkpoint folder, whatever is in them.
// Thread-safety: pure functions, but for reading the folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct StepFolder {
  std::int64_t step = 0;
  std::string name, path;
};

// By step; none where there is no such folder. Throws Error(kCheckpoint) where it cannot be read.
std::vector<StepFolder> step_folders(const std::string& folder);

}  // namespace sluice
