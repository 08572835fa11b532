#pragma once

#include <string>

namespace sluice {

// Throws Error(kUsage) with the example ("400e12") as remedy.
double number_above_0(const char* option, const std::string& text, const char* example);
double number_from_0(const char* option, const std::string& text, const char* example);

}  // namespace sluice
