// Numbers in expressions of sizes: Python's whole numbers and floats, and sympy's exact fractions.
//
// Owns: arithmetic that never wraps. Does not own: expressions (size_expression.h).
// Errors: Error(kInput) without a place for a division by 0, for what is beyond 64 bits, for a
// float that is not finite where it is made whole.
// Thread-safety: values; pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::detail {

__extension__ typedef __int128 WideNumber;

class SizeNumber {
 public:
  SizeNumber(std::int64_t whole = 0) : numerator_(whole) {}
  static SizeNumber fraction(WideNumber numerator, WideNumber denominator);
  static SizeNumber real(double value);

  bool is_real() const { return is_real_; }
  bool is_whole() const { return !is_real_ && denominator_ == 1; }
  // A float that is a whole number is one. Throws for all else that is none.
  std::int64_t whole() const;
  double as_real() const;
  bool is_true() const { return is_real_ ? real_ != 0 : numerator_ != 0; }
  std::string text() const;  // "3", "1/2", "2.5"

  friend SizeNumber operator+(const SizeNumber& a, const SizeNumber& b);
  friend SizeNumber operator*(const SizeNumber& a, const SizeNumber& b);
  friend SizeNumber operator/(const SizeNumber& a, const SizeNumber& b);
  friend bool operator==(const SizeNumber& a, const SizeNumber& b);
  friend bool operator<(const SizeNumber& a, const SizeNumber& b);
  friend SizeNumber floor(const SizeNumber& a);
  friend SizeNumber ceiling(const SizeNumber& a);
  friend SizeNumber truncated(const SizeNumber& a);
  friend SizeNumber rounded(const SizeNumber& a);  // halves to even
  friend SizeNumber power(const SizeNumber& base, const SizeNumber& exponent);

 private:
  std::int64_t numerator_ = 0, denominator_ = 1;  // without a common factor; the second above 0
  double real_ = 0;
  bool is_real_ = false;
};

// Python's /, which always gives a float. Throws for whole numbers above 2^53, which floats round.
// operator/ is the exact quotient of sympy.
SizeNumber true_quotient(const SizeNumber& a, const SizeNumber& b);
// Python's **, which gives a float for a negative exponent.
SizeNumber python_power(const SizeNumber& base, const SizeNumber& exponent);
// As Python's // and %: the quotient is rounded down, the rest has the divisor's sign.
SizeNumber floor_quotient(const SizeNumber& a, const SizeNumber& b);
SizeNumber modulo(const SizeNumber& a, const SizeNumber& b);
// As Python's round(a, decimals): a float, whose halves go to even. Throws beyond 0 to 17 decimals.
SizeNumber rounded_to(const SizeNumber& a, const SizeNumber& decimals);

// Python's // and % of floats (Objects/floatobject.c). 1.0 // 0.1 is 9, since 0.1 is slightly above
// a tenth. Precondition: the divisor is not 0.
double floor_quotient(double a, double b);
double modulo(double a, double b);
// Whether floats represent this and every smaller whole number exactly.
bool is_exact_in_float(std::int64_t whole);

}  // namespace sluice::detail
