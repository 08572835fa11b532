// Selects the committed checkpoints that are removed after a newer one is committed. They belong to
// the same run, and contain no additional files. The run's last committed checkpoint always stays.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

struct Retention {
  std::string run;
  std::int64_t keep_latest_k = 3;  // 0: all
  std::int64_t keep_every = 0;     // also keep multiples; 0: none
};

// Returns paths, by step. Throws Error(kCheckpoint) if the folder cannot be listed.
std::vector<std::string> superseded_checkpoints(const std::string& folder, std::int64_t step,
                                                const Retention& retention);

// Oldest first. Failures only cause warnings, because the save itself succeeded.
void remove_superseded(const std::string& folder, std::int64_t step, const Retention& retention,
                       const std::function<void(const std::string& path)>& remove);

}  // namespace sluice
