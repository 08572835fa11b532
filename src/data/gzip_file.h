// Reads files that gzip compressed (RFC 1952), also in several members.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "base/file.h"

namespace sluice::data {

bool is_gzip(std::string_view first_bytes);

// Reads the next bytes of a stream. Returns less than `count` only at the end.
using ReadNext = std::function<std::size_t(char* buffer, std::size_t count)>;

// Returns the bytes of the file, unpacked if gzip compressed them. The file must outlive the
// function. Reading throws Error(kInput) for a damaged file.
ReadNext read_unpacked(const File& file);

}  // namespace sluice::data
