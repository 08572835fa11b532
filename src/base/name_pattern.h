// Name patterns of the configuration ("*.bias", "model.layers.*.norm.weight").
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// `*` stands for any run of characters, dots included; everything else for itself.
bool matches_pattern(std::string_view pattern, std::string_view name);
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

}  // namespace sluice
