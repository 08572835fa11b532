// Python's integers and floats, and sympy's exact fractions. Throws Error(kInput), without a file,
// for division by 0, overflow beyond 64 bits, and a non-finite float made an integer.
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
  // Accepts floats with an integral value.
  std::int64_t whole() const;
  double as_real() const;
  bool is_true() const { return is_real_ ? real_ != 0 : numerator_ != 0; }
  std::string text() const;

  friend SizeNumber operator+(const SizeNumber& a, const SizeNumber& b);
  friend SizeNumber operator*(const SizeNumber& a, const SizeNumber& b);
  friend SizeNumber operator/(const SizeNumber& a, const SizeNumber& b);
  friend bool operator==(const SizeNumber& a, const SizeNumber& b);
  friend bool operator<(const SizeNumber& a, const SizeNumber& b);
  friend SizeNumber floor(const SizeNumber& a);
  friend SizeNumber ceiling(const SizeNumber& a);
  friend SizeNumber truncated(const SizeNumber& a);
  friend SizeNumber rounded(const SizeNumber& a);  // halves round to even
  friend SizeNumber power(const SizeNumber& base, const SizeNumber& exponent);

 private:
  std::int64_t numerator_ = 0, denominator_ = 1;  // lowest terms, denominator > 0
  double real_ = 0;
  bool is_real_ = false;
};

// Python's /, always a float. Throws for integers above 2^53, which a float may round.
SizeNumber true_quotient(const SizeNumber& a, const SizeNumber& b);
// Python's **: a negative exponent gives a float.
SizeNumber python_power(const SizeNumber& base, const SizeNumber& exponent);
// Python's // and %. The quotient is rounded down, and the remainder has the divisor's sign.
SizeNumber floor_quotient(const SizeNumber& a, const SizeNumber& b);
SizeNumber modulo(const SizeNumber& a, const SizeNumber& b);
// Python's round(a, decimals): halves to even. Throws unless `decimals` is 0 to 17.
SizeNumber rounded_to(const SizeNumber& a, const SizeNumber& decimals);

// Python's // and % of floats (Objects/floatobject.c). 1.0 // 0.1 is 9, since 0.1 is slightly above
// a tenth. b must not be 0.
double floor_quotient(double a, double b);
double modulo(double a, double b);
// True up to 2^53.
bool is_exact_in_float(std::int64_t whole);

}  // namespace sluice::detail
