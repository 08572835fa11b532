// Floating-point values of stored tensors as doubles, and their units in the last place.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct FloatDtype {
  std::string_view stored;  // name in a safetensors file: "BF16"
  std::string_view word;    // name in a configuration: "bfloat16"
  std::size_t bytes;
  int mantissa_bits;   // stored bits, without the leading one
  int least_exponent;  // of normal numbers

  // Largest relative error of rounding a real number.
  double unit_roundoff() const;
  // Distance of neighbouring numbers at `value`.
  double ulp(double value) const;
};

// Return nullptr for other dtypes, such as integers.
const FloatDtype* find_stored_float(std::string_view stored);
const FloatDtype* find_float_word(std::string_view word);
std::vector<std::string> float_words();

// `bytes` holds `count` little-endian values.
void to_doubles(const FloatDtype& dtype, const char* bytes, std::size_t count, double* values);

}  // namespace sluice
