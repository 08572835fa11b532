// Prints to stdout. Commands print only by these functions, so that text from files cannot control
// the terminal.
#pragma once

#include <string_view>

#include "base/printable.h"

namespace sluice {

// Prints what printable_lines() returns.
void print(std::string_view text, Colors colors = Colors::kReplace);
// Prints bytes unchanged, for programs that read them. The caller must already have filtered text
// from files.
void print_exact(std::string_view text);

}  // namespace sluice
