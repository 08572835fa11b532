// Standard output: all that the commands print goes through here.
//
// Owns: keeping text of files, names and models from steering a terminal. Does not own: errors of
// writing (apps/sluice/command_line.h). No torch.
// Thread-safety: as std::cout.
#pragma once

#include <string_view>

#include "base/printable.h"

namespace sluice {

// Prints text for people, as printable_lines() shows it.
void print(std::string_view text, Colors colors = Colors::kReplace);
// Prints the bytes as they are: JSON, and other text for programs that holds no foreign text as it
// is.
void print_exact(std::string_view text);

}  // namespace sluice
