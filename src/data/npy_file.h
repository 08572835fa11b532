// Arrays of numpy's .npy files as fields of a row: large values, as the pixels of images, need not
// be text. Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
//
// Owns: reading the header and the numbers. Does not own: the sizes and numbers that a field takes
// (field_reader.h). Never reads pickles: arrays of objects are refused.
// Thread-safety: a pure function, but for reading the file.
#pragma once

#include <cstdint>
#include <string>

#include "data/field_reader.h"

namespace sluice::data {

inline constexpr std::uint64_t kMaxNpyBytes = std::uint64_t{1} << 30;

// Gives `field` the array in the file, as if the row had it as nested lists. Throws Error(kInput)
// for a file that is missing, malformed, larger than kMaxNpyBytes or of another length than its
// header says, and for an array that the field does not take.
void read_npy(const std::string& path, FieldReader& field);

}  // namespace sluice::data
