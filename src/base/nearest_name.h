// Suggests a valid name in place of a misspelled one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

// Returns the candidate with the smallest edit distance (ignoring case), or "" if none is within
// max(2, length / 3) edits.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

// Returns "did you mean 'X'?" for the nearest name, or "one of: a, b, c".
std::string suggest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace sluice
