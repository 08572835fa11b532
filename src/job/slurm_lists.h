#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// "gpu-[03-17,20],login1" -> "gpu-03"; "" if malformed.
std::string first_slurm_host(std::string_view hosts);
// "2(x3),1" -> {2, 2, 2, 1}
std::optional<std::vector<int>> slurm_counts(std::string_view counts);

}  // namespace sluice
