// Commands print only by these functions, so that text from files cannot control the terminal.
#pragma once

#include <string_view>

#include "base/printable.h"

namespace sluice {

// Applies printable_lines().
void print(std::string_view text, Colors colors = Colors::kReplace);
// Prints bytes unchanged, for output that another program reads. The text must not contain raw text
// from files, which could hold control characters.
void print_exact(std::string_view text);

}  // namespace sluice
