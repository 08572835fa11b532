#pragma once

#include <exception>
#include <string>

#include "sluice/error.h"

namespace sluice {

// Converts a failed system call: to kUsage for too many open files, kMemory for exhausted memory or
// threads, otherwise kPeer. The text names the limit to raise.
Error system_error(const std::string& what, int error_number, const std::string& place = {});

// Returns an Error unchanged. Other exceptions get `place`: std::bad_alloc becomes kMemory, a
// std::system_error about an exhausted limit what system_error() returns, anything else kInternal
// with the first line of its message.
Error as_error(const std::exception_ptr& thrown, const std::string& place = {});

}  // namespace sluice
