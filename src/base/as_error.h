// Any exception as the one Error of sluice.
#pragma once

#include <exception>
#include <string>

#include "sluice/error.h"

namespace sluice {

// An exception as an Error: an Error as it is; all else at `place`, std::bad_alloc as kMemory,
// others as kInternal with the first line of their message.
Error as_error(const std::exception_ptr& thrown, const std::string& place = {});

}  // namespace sluice
