#include "sluice/model_spec.h"

namespace sluice {

double ShapePolynomial::at(const MicrobatchShape& shape) const {
  const auto rows = static_cast<double>(shape.rows), length = static_cast<double>(shape.length);
  return constant + length * per_length +
         rows * (per_row + length * (per_token + length * per_pair));
}

ShapePolynomial ShapePolynomial::sum(const ShapePolynomial& a, const ShapePolynomial& b,
                                     double factor) {
  return {a.constant + factor * b.constant, a.per_row + factor * b.per_row,
          a.per_token + factor * b.per_token, a.per_pair + factor * b.per_pair,
          a.per_length + factor * b.per_length};
}

}  // namespace sluice
