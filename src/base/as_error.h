// Any exception as the one Error of sluice.
#pragma once

#include <exception>
#include <string>

#include "sluice/error.h"

namespace sluice {

// "WHAT: Too many open files" and the limit to raise, for a system call that failed: Error(kUsage)
// where no more files may be opened, Error(kMemory) where memory or threads are used up, else
// Error(kPeer).
Error system_error(const std::string& what, int error_number, const std::string& place = {});

// An exception as an Error: an Error as it is; all else at `place`, std::bad_alloc as kMemory,
// std::system_error by system_error() where a limit was reached, others as kInternal with the first
// line of their message.
Error as_error(const std::exception_ptr& thrown, const std::string& place = {});

}  // namespace sluice
