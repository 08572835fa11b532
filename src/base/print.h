// Commands write to standard output only through these functions, so that foreign text cannot
// control the terminal. Thread-safe as std::cout is.
#pragma once

#include <string_view>

#include "base/printable.h"

namespace sluice {

// Prints text for people, filtered by printable_lines().
void print(std::string_view text, Colors colors = Colors::kReplace);
// Prints bytes unchanged: JSON and other output for programs, without raw foreign text.
void print_exact(std::string_view text);

}  // namespace sluice
