// Commands print only through these functions, so that foreign text cannot control the terminal.
#pragma once

#include <string_view>

#include "base/printable.h"

namespace sluice {

// Filters the text by printable_lines().
void print(std::string_view text, Colors colors = Colors::kReplace);
// Prints bytes unchanged, for programs. They must not contain raw foreign text.
void print_exact(std::string_view text);

}  // namespace sluice
