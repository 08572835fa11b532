#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct StepFolder {
  std::int64_t step = 0;
  std::string name, path;
};

// Returns folders named like checkpoints, by step, whatever they contain. Empty if `folder` is
// missing. Throws Error(kCheckpoint).
std::vector<StepFolder> step_folders(const std::string& folder);

}  // namespace sluice
