#include "report/compare/float_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace sluice {
namespace {

constexpr std::array kFloatDtypes = {
    FloatDtype{"F64", "float64", 8, 52, -1022}, FloatDtype{"F32", "float32", 4, 23, -126},
    FloatDtype{"F16", "float16", 2, 10, -14}, FloatDtype{"BF16", "bfloat16", 2, 7, -126}};

template <typename Value>
Value value_at(const char* bytes, std::size_t index) {
  Value value;
  std::memcpy(&value, bytes + index * sizeof value, sizeof value);
  return value;
}

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = mantissa ? std::nan("") : HUGE_VAL;
  } else {
    value = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  }
  return bits >> 15 ? -value : value;
}

double bfloat16_value(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

}  // namespace

double FloatDtype::unit_roundoff() const { return std::ldexp(1.0, -mantissa_bits - 1); }

double FloatDtype::ulp(double value) const {
  const int exponent = value == 0 ? least_exponent : std::max(std::ilogb(value), least_exponent);
  return std::ldexp(1.0, exponent - mantissa_bits);
}

const FloatDtype* find_stored_float(std::string_view stored) {
  for (const FloatDtype& dtype : kFloatDtypes)
    if (dtype.stored == stored) return &dtype;
  return nullptr;
}

const FloatDtype* find_float_word(std::string_view word) {
  for (const FloatDtype& dtype : kFloatDtypes)
    if (dtype.word == word) return &dtype;
  return nullptr;
}

std::vector<std::string> float_words() {
  std::vector<std::string> words;
  for (const FloatDtype& dtype : kFloatDtypes) words.emplace_back(dtype.word);
  return words;
}

void to_doubles(const FloatDtype& dtype, const char* bytes, std::size_t count, double* values) {
  for (std::size_t i = 0; i < count; ++i) {
    if (dtype.bytes == 8) {
      values[i] = value_at<double>(bytes, i);
    } else if (dtype.bytes == 4) {
      values[i] = value_at<float>(bytes, i);
    } else if (dtype.mantissa_bits == 10) {
      values[i] = half_value(value_at<std::uint16_t>(bytes, i));
    } else {
      values[i] = bfloat16_value(value_at<std::uint16_t>(bytes, i));
    }
  }
}

}  // namespace sluice
