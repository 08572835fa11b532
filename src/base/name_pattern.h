#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// `*` matches any characters, including dots: "*.bias".
bool matches_pattern(std::string_view pattern, std::string_view name);
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

}  // namespace sluice
