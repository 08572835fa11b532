// Translates the archive's enum numbers (torch/_export/serde/schema.py) to words. c10 uses other
// numbers.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::detail {

// These functions return "" for an unknown number.
std::string_view serialized_dtype(std::int64_t number);
std::string_view serialized_layout(std::int64_t number);
std::string_view serialized_memory_format(std::int64_t number);

// Returns the bytes per element, or 0 for an unknown dtype.
int dtype_bytes(std::string_view dtype);

}  // namespace sluice::detail
