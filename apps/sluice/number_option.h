// The values of options that are numbers with a fraction or an exponent.
// Thread-safety: pure functions.
#pragma once

#include <string>

namespace sluice {

// "400e12". Throws Error(kUsage), whose remedy gives the example.
double number_above_0(const char* option, const std::string& text, const char* example);
double number_from_0(const char* option, const std::string& text, const char* example);

}  // namespace sluice
