// Selects old checkpoints to remove after a new one is committed. They belong to the same run and
// contain no foreign files. The run's last checkpoint always stays.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

struct Retention {
  std::string run;
  std::int64_t keep_latest_k = 3;  // 0: keep all
  std::int64_t keep_every = 0;     // also keep steps that are multiples of it; 0: none
};

// Returns the paths of checkpoints to remove, by step. Throws Error(kCheckpoint) if the folder
// cannot be listed.
std::vector<std::string> superseded_checkpoints(const std::string& folder, std::int64_t step,
                                                const Retention& retention);

// Removes old checkpoints, oldest first. Failures only cause warnings, because the new one is
// saved.
void remove_superseded(const std::string& folder, std::int64_t step, const Retention& retention,
                       const std::function<void(const std::string& path)>& remove);

}  // namespace sluice
