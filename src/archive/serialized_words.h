// Translates enum numbers of the archive (torch/_export/serde/schema.py), which differ from c10's.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::detail {

// These return "" for unknown numbers.
std::string_view serialized_dtype(std::int64_t number);
std::string_view serialized_layout(std::int64_t number);
std::string_view serialized_memory_format(std::int64_t number);

// Per element, 0 for an unknown dtype.
int dtype_bytes(std::string_view dtype);

}  // namespace sluice::detail
