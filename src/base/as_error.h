#pragma once

#include <exception>
#include <string>

#include "sluice/error.h"

namespace sluice {

// For a failed system call. Too many open files give Error(kUsage), exhausted memory or threads
// give Error(kMemory), anything else Error(kPeer). The text is "WHAT: Too many open files" plus the
// limit to raise.
Error system_error(const std::string& what, int error_number, const std::string& place = {});

// Returns an Error unchanged. Other exceptions become an Error at `place`: std::bad_alloc as
// kMemory, a std::system_error about an exhausted limit by system_error(), others as kInternal with
// the first line of their message.
Error as_error(const std::exception_ptr& thrown, const std::string& place = {});

}  // namespace sluice
