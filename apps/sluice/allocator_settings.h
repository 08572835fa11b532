// What glibc's allocator is told when `sluice` starts `sluice-run`: to keep what tensors of a step
// have freed for the next one, and to ask for 2 MiB pages.
//
// Owns: the settings. Does not own: the environment. Thread-safety: values.
#pragma once

#include <string>

namespace sluice {

// The value of GLIBC_TUNABLES: `given`, which the user has set, and ours for what it does not name.
// Another C library ignores it.
std::string allocator_settings(const std::string& given);

}  // namespace sluice
