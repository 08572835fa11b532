// Makes glibc's allocator keep the memory that a step frees for the next step, in 2 MiB pages.
#pragma once

#include <string>

namespace sluice {

// Returns a value for GLIBC_TUNABLES that adds our settings to the user's settings in `given`. The
// user's settings win. Other C libraries ignore the variable.
std::string allocator_settings(const std::string& given);

}  // namespace sluice
