// Tunes glibc's allocator for `sluice-run`. Memory that a step frees is kept for the next step and
// comes in 2 MiB pages.
#pragma once

#include <string>

namespace sluice {

// Returns a value for GLIBC_TUNABLES: the user's settings in `given`, and ours where the user has
// none. Other C libraries ignore the variable.
std::string allocator_settings(const std::string& given);

}  // namespace sluice
