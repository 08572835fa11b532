// The settings of glibc's allocator in `sluice-run`, which `sluice` starts: memory that the tensors
// of a step free is kept for the next step, and comes in 2 MiB pages.
//
// Owns: the settings. Does not own: the environment. Thread-safety: values.
#pragma once

#include <string>

namespace sluice {

// The value of GLIBC_TUNABLES: `given`, which the user has set, and ours for what it does not name.
// Another C library ignores it.
std::string allocator_settings(const std::string& given);

}  // namespace sluice
