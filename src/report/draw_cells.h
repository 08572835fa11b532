// The shared part of the grid and the picture of violations: the colours of actions on a terminal.
//
// Owns: the palette. Does not own: layout.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "sluice/parts/action.h"

namespace sluice::detail {

inline constexpr std::string_view kMark = "\x1b[1;31m";  // arrows of violations
inline constexpr std::string_view kDim = "\x1b[2m";
inline constexpr std::string_view kReset = "\x1b[0m";

// The sequence that starts the colour of a kind; "" for kinds without one. `chunk` is the position
// of the stage among those of its rank: odd ones are brighter, so the passes of a loop or the arms
// of a V can be told apart.
std::string_view color_of(ActionKind kind, int chunk);

// `text` between `code` and a reset; just `text` when colours are off or there is no code.
std::string colored(std::string_view text, std::string_view code, bool color);

}  // namespace sluice::detail
