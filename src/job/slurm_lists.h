// Parses Slurm's abbreviated lists of hosts and counts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Returns "gpu-03" for "gpu-[03-17,20],login1", or "" if malformed.
std::string first_slurm_host(std::string_view hosts);
// Returns {2, 2, 2, 1} for "2(x3),1".
std::optional<std::vector<int>> slurm_counts(std::string_view counts);

}  // namespace sluice
