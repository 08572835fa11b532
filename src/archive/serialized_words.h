// Numbers that stand for words in an archive (torch/_export/serde/schema.py); c10's are others.
//
// Owns: the tables. Does not own: what a dtype is to LibTorch.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::detail {

// All return "" for a number that the schema does not have.
std::string_view serialized_dtype(std::int64_t number);          // "float32"
std::string_view serialized_layout(std::int64_t number);         // "strided"
std::string_view serialized_memory_format(std::int64_t number);  // "channels_last"

// Bytes of one element of a dtype by its name; 0 for one that no archive has.
int dtype_bytes(std::string_view dtype);

}  // namespace sluice::detail
