#include "archive/size_number.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr WideNumber kLeast = std::numeric_limits<std::int64_t>::min(),
                     kMost = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse_number(const std::string& what) {
  throw Error(ErrorKind::kInput,
              {.what = what, .remedy = "use other sizes, or export the model again"});
}

WideNumber common_divisor(WideNumber a, WideNumber b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    const WideNumber rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

std::int64_t checked(WideNumber value) {
  if (value < kLeast || value > kMost) refuse_number("a size is beyond 64 bits");
  return static_cast<std::int64_t>(value);
}

SizeNumber whole_of(double value) {
  // This comparison is exact, because 2^63 is a double.
  if (!(value >= -0x1p63 && value < 0x1p63)) refuse_number("a size is beyond 64 bits");
  return SizeNumber(static_cast<std::int64_t>(value));
}

WideNumber floor_of(WideNumber numerator, WideNumber denominator) {
  const WideNumber quotient = numerator / denominator;
  return quotient - (numerator % denominator < 0 ? 1 : 0);
}

}  // namespace

SizeNumber SizeNumber::fraction(WideNumber numerator, WideNumber denominator) {
  if (denominator == 0) refuse_number("a size is divided by 0");
  const WideNumber divisor = common_divisor(numerator, denominator);
  if (denominator < 0) {
    numerator = -numerator;
    denominator = -denominator;
  }
  SizeNumber made;
  made.numerator_ = checked(numerator / divisor);
  made.denominator_ = checked(denominator / divisor);
  return made;
}

SizeNumber SizeNumber::real(double value) {
  SizeNumber made;
  made.is_real_ = true;
  made.real_ = value;
  return made;
}

std::int64_t SizeNumber::whole() const {
  if (is_whole()) return numerator_;
  if (is_real_ && std::isfinite(real_) && std::trunc(real_) == real_)
    return whole_of(real_).numerator_;
  refuse_number("a size is " + text() + ", not a whole number");
}

double SizeNumber::as_real() const {
  return is_real_ ? real_ : static_cast<double>(numerator_) / static_cast<double>(denominator_);
}

std::string SizeNumber::text() const {
  if (is_real_) {
    std::string digits = shortest(real_);
    return digits.find_first_of(".ein") == std::string::npos ? digits + ".0" : digits;
  }
  return denominator_ == 1 ? formatted("{}", numerator_)
                           : formatted("{}/{}", numerator_, denominator_);
}

SizeNumber operator+(const SizeNumber& a, const SizeNumber& b) {
  if (a.is_real_ || b.is_real_) return SizeNumber::real(a.as_real() + b.as_real());
  return SizeNumber::fraction(static_cast<WideNumber>(a.numerator_) * b.denominator_ +
                                  static_cast<WideNumber>(b.numerator_) * a.denominator_,
                              static_cast<WideNumber>(a.denominator_) * b.denominator_);
}

SizeNumber operator*(const SizeNumber& a, const SizeNumber& b) {
  if (a.is_real_ || b.is_real_) return SizeNumber::real(a.as_real() * b.as_real());
  return SizeNumber::fraction(static_cast<WideNumber>(a.numerator_) * b.numerator_,
                              static_cast<WideNumber>(a.denominator_) * b.denominator_);
}

SizeNumber operator/(const SizeNumber& a, const SizeNumber& b) {
  if (!b.is_true()) refuse_number("a size is divided by 0");
  if (a.is_real_ || b.is_real_) return SizeNumber::real(a.as_real() / b.as_real());
  return SizeNumber::fraction(static_cast<WideNumber>(a.numerator_) * b.denominator_,
                              static_cast<WideNumber>(a.denominator_) * b.numerator_);
}

bool operator==(const SizeNumber& a, const SizeNumber& b) {
  if (a.is_real_ || b.is_real_) return a.as_real() == b.as_real();
  return a.numerator_ == b.numerator_ && a.denominator_ == b.denominator_;
}

bool operator<(const SizeNumber& a, const SizeNumber& b) {
  if (a.is_real_ || b.is_real_) return a.as_real() < b.as_real();
  return static_cast<WideNumber>(a.numerator_) * b.denominator_ <
         static_cast<WideNumber>(b.numerator_) * a.denominator_;
}

SizeNumber floor(const SizeNumber& a) {
  if (a.is_real_) return whole_of(std::floor(a.real_));
  return SizeNumber(static_cast<std::int64_t>(floor_of(a.numerator_, a.denominator_)));
}

SizeNumber ceiling(const SizeNumber& a) {
  if (a.is_real_) return whole_of(std::ceil(a.real_));
  return SizeNumber(checked(-floor_of(-static_cast<WideNumber>(a.numerator_), a.denominator_)));
}

SizeNumber truncated(const SizeNumber& a) {
  if (a.is_real_) return whole_of(std::trunc(a.real_));
  return SizeNumber(a.numerator_ / a.denominator_);
}

SizeNumber rounded(const SizeNumber& a) {
  if (a.is_real_) return whole_of(std::nearbyint(a.real_));
  const SizeNumber below = floor(a);
  const SizeNumber part = a + SizeNumber(-1) * below, half = SizeNumber::fraction(1, 2);
  if (part < half || (part == half && below.numerator_ % 2 == 0)) return below;
  return below + SizeNumber(1);
}

SizeNumber power(const SizeNumber& base, const SizeNumber& exponent) {
  if (base.is_real_ || !exponent.is_whole())
    return SizeNumber::real(std::pow(base.as_real(), exponent.as_real()));
  const bool is_inverse = exponent.numerator_ < 0;
  SizeNumber factor = is_inverse ? SizeNumber(1) / base : base;
  std::uint64_t left = static_cast<std::uint64_t>(exponent.numerator_);
  if (is_inverse) left = 0 - left;
  SizeNumber product(1);
  for (;;) {
    if (left & 1) product = product * factor;
    left >>= 1;
    if (left == 0) return product;
    factor = factor * factor;
  }
}

SizeNumber true_quotient(const SizeNumber& a, const SizeNumber& b) {
  if (!b.is_true()) refuse_number("a size is divided by 0");
  for (const SizeNumber* each : {&a, &b})
    if (each->is_whole() && !is_exact_in_float(each->whole()))
      refuse_number("a quotient of sizes has a number above 2^53, which no float holds exactly");
  return SizeNumber::real(a.as_real() / b.as_real());
}

SizeNumber python_power(const SizeNumber& base, const SizeNumber& exponent) {
  if (base.is_real() || exponent.is_real() || !(exponent < SizeNumber(0)))
    return power(base, exponent);
  return true_quotient(SizeNumber(1), power(base, SizeNumber(-1) * exponent));
}

SizeNumber floor_quotient(const SizeNumber& a, const SizeNumber& b) {
  if (a.is_real() || b.is_real()) {
    if (!b.is_true()) refuse_number("a size is divided by 0");
    return SizeNumber::real(floor_quotient(a.as_real(), b.as_real()));
  }
  return floor(a / b);
}

SizeNumber modulo(const SizeNumber& a, const SizeNumber& b) {
  if (a.is_real() || b.is_real()) {
    if (!b.is_true()) refuse_number("a size is divided by 0");
    return SizeNumber::real(modulo(a.as_real(), b.as_real()));
  }
  return a + SizeNumber(-1) * floor_quotient(a, b) * b;
}

double modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_quotient(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

bool is_exact_in_float(std::int64_t whole) {
  constexpr std::int64_t kMostExact = std::int64_t{1} << 53;
  return whole >= -kMostExact && whole <= kMostExact;
}

SizeNumber rounded_to(const SizeNumber& a, const SizeNumber& decimals) {
  const std::int64_t count = decimals.whole();
  if (count < 0 || count > 17) refuse_number(formatted("a size is rounded to {} decimals", count));
  // fixed() rounds the float's exact value, so ties occur only if the float is exactly halfway.
  return SizeNumber::real(
      std::strtod(fixed(a.as_real(), static_cast<int>(count)).c_str(), nullptr));
}

}  // namespace sluice::detail
