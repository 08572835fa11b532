// The lists in which Slurm abbreviates hosts and counts in the environment of a step.
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// "gpu-[03-17,20],login1" -> "gpu-03"; "" when it is not such a list.
std::string first_slurm_host(std::string_view hosts);
// SLURM_STEP_TASKS_PER_NODE, "2(x3),1" -> {2, 2, 2, 1}; none when it is not such a list.
std::optional<std::vector<int>> slurm_counts(std::string_view counts);

}  // namespace sluice
