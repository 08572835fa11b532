// Checks that a data file contains what its format says: text, JSON rows or token ids.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sluice/data.h"
#include "sluice/error.h"

namespace sluice::data {

inline constexpr std::size_t kLookedAtBytes = std::size_t{8} << 10;

// Returns at most kLookedAtBytes.
std::string first_bytes(const std::string& file);

// `bytes` is the start of the file.
Error not_readable(const std::string& file, std::string_view bytes, const std::string& where);

// Checks the start of a file of a `format` other than kAuto. Throws Error(kInput) for binary files,
// text that is not UTF-8, and ids wider than 16 bits. JSON in a text file is also an error, unless
// the user set `data.format` (`is_set`).
void require_content(const std::string& file, DataFormat format, bool is_set,
                     const std::string& where);

// Throws Error(kInput) at the first NUL byte or invalid UTF-8.
void require_text(const std::string& file);

}  // namespace sluice::data
