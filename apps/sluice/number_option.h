#pragma once

#include <string>

namespace sluice {

// Parses a number above 0. Throws Error(kUsage) with `example` (such as "400e12") as remedy.
double number_above_0(const char* option, const std::string& text, const char* example);
double number_from_0(const char* option, const std::string& text, const char* example);

}  // namespace sluice
