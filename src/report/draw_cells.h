#pragma once

#include <string>
#include <string_view>

#include "sluice/parts/action.h"

namespace sluice::detail {

inline constexpr std::string_view kMark = "\x1b[1;31m";
inline constexpr std::string_view kDim = "\x1b[2m";
inline constexpr std::string_view kReset = "\x1b[0m";

// Returns a terminal escape sequence, or "". `chunk` is the stage's index on its rank. Odd chunks
// are brighter.
std::string_view color_of(ActionKind kind, int chunk);

std::string colored(std::string_view text, std::string_view code, bool color);

}  // namespace sluice::detail
