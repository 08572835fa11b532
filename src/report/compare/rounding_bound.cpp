#include "report/compare/rounding_bound.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

constexpr double kSafety = 4;

double root_of(std::int64_t count) {
  return std::sqrt(static_cast<double>(std::max<std::int64_t>(count, 1)));
}

// Unit roundoff of sums inside of an operator.
double sum_roundoff(const FloatDtype& dtype) {
  return std::min(dtype.unit_roundoff(), find_float_word("float32")->unit_roundoff());
}

}  // namespace

double Arithmetic::gradient_bound() const {
  return kSafety * root_of(2 * layers) *
         (dtype->unit_roundoff() + sum_roundoff(*dtype) * root_of(terms));
}

double Arithmetic::loss_bound() const {
  const double half = dtype->unit_roundoff() - sum_roundoff(*dtype);
  const double depth = root_of(2 * layers);
  return kSafety * (half * std::max(1.0, depth / 4) / std::min(root_of(terms), 64.0) +
                    sum_roundoff(*dtype) * depth * (1 + root_of(terms)));
}

double Arithmetic::norm_bound() const {
  const double gradients = gradient_bound();
  return gradients * gradients / 2 + scale_bound() + loss_bound();
}

double Arithmetic::scale_bound() const {
  return kSafety * (dtype->unit_roundoff() + sum_roundoff(*dtype) * root_of(terms));
}

double Arithmetic::growth(std::int64_t updates) {
  constexpr double kGrowth = 1.25;
  return std::pow(kGrowth, static_cast<double>(std::clamp<std::int64_t>(updates - 1, 0, 1000)));
}

double Arithmetic::update_bound(std::int64_t updates) const {
  return std::min(1.0, 2 * std::sqrt(gradient_bound()) * growth(updates));
}

double Arithmetic::curve_bound(std::int64_t updates) const {
  return std::min(1.0, gradient_bound() / 4 * growth(updates));
}

}  // namespace sluice
