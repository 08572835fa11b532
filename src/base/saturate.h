// Sums and products that stop at the largest number, because a configuration may hold any size.
// Operands must not be negative.
#pragma once

#include <cstdint>
#include <limits>

namespace sluice {

inline constexpr std::int64_t kTooMuch = std::numeric_limits<std::int64_t>::max();

inline std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  return a > kTooMuch - b ? kTooMuch : a + b;
}

inline std::int64_t saturating_multiply(std::int64_t a, std::int64_t b) {
  return b != 0 && a > kTooMuch / b ? kTooMuch : a * b;
}

inline std::int64_t saturating_subtract(std::int64_t a, std::int64_t b) {
  return a == kTooMuch ? kTooMuch : a - b;
}

}  // namespace sluice
