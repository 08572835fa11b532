// Checks by its bytes whether a data file holds text, rows of JSON or token ids.
//
// Owns: the magic numbers of binary formats, the checks for UTF-8 text and 16-bit ids, and the
// remedies for other files.
// Does not own: the format that an ending stands for (data_format.h).
// Thread-safety: pure functions, but for reading files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sluice/data.h"
#include "sluice/error.h"

namespace sluice::data {

// Bytes at the start of a file that first_bytes() reads.
inline constexpr std::size_t kLookedAtBytes = std::size_t{8} << 10;

// The first bytes of the file, at most kLookedAtBytes. Throws Error(kInput) if it cannot be read.
std::string first_bytes(const std::string& file);

// The error at `where` for a file that is neither text nor rows nor ids. bytes: its first_bytes().
Error not_readable(const std::string& file, std::string_view bytes, const std::string& where);

// Checks the start of a file before it is read as `format`, which is not kAuto. is_set: the user
// set `data.format`, so JSON may be read as text. Throws Error(kInput) at `where` for a binary or
// compressed file, text that is not UTF-8, JSON read as text, and wider ids than 16 bits.
void require_content(const std::string& file, DataFormat format, bool is_set,
                     const std::string& where);

// Checks a whole text file. Throws Error(kInput) with the place of a NUL or of invalid UTF-8.
void require_text(const std::string& file);

}  // namespace sluice::data
