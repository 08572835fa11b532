#include "base/print.h"

#include <iostream>

namespace sluice {

void print(std::string_view text, Colors colors) { std::cout << printable_lines(text, colors); }
void print_exact(std::string_view text) { std::cout << text; }

}  // namespace sluice
