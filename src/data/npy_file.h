// Reads arrays such as pixels from .npy files, so that a row need not hold them as text. Format:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
//
// Owns: reading the header and the numbers. Does not own: the sizes and numbers that a field takes
// (field_reader.h). Refuses arrays of objects, which are pickles.
// Thread-safety: a pure function, but for reading the file.
#pragma once

#include <cstdint>
#include <string>

#include "data/field_reader.h"

namespace sluice::data {

inline constexpr std::uint64_t kMaxNpyBytes = std::uint64_t{1} << 30;

// Gives `field` the array as nested lists. Throws Error(kInput) for a file that is missing,
// malformed, larger than kMaxNpyBytes or of the wrong length, and for an array that does not fit
// the field.
void read_npy(const std::string& path, FieldReader& field);

}  // namespace sluice::data
