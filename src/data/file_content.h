// What a data file holds, by its bytes: text, rows of JSON, or a binary format.
//
// Owns: the magic numbers of formats that are not text, the checks that a file is UTF-8 text or
// 16-bit ids, and what to do about a file that is neither.
// Does not own: the format that an ending stands for (data_format.h).
// Thread-safety: pure functions, but for reading files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sluice/data.h"
#include "sluice/error.h"

namespace sluice::data {

// Bytes from the start of a file that the cheap checks read.
inline constexpr std::size_t kLookedAtBytes = std::size_t{8} << 10;

// The first bytes of the file, at most kLookedAtBytes. Throws Error(kInput) if it cannot be read.
std::string first_bytes(const std::string& file);

// The refusal, at `where`, of a file that is neither text nor rows nor ids. `bytes` are its
// first_bytes().
Error not_readable(const std::string& file, std::string_view bytes, const std::string& where);

// Looks at the start of a file that is about to be read as `format`, which is not kAuto. is_set:
// `data.format` says so, and rows of JSON may then be read as text. Throws Error(kInput) at
// `where`: a binary or compressed file, text that is not UTF-8, JSON that would be read as text,
// ids of 32 bits that would be read as 16 bits.
void require_content(const std::string& file, DataFormat format, bool is_set,
                     const std::string& where);

// Looks at all of a text file. Throws Error(kInput) at the file and byte: a NUL, bytes that are not
// UTF-8.
void require_text(const std::string& file);

}  // namespace sluice::data
