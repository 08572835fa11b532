#include "sluice/parts/layer_cost.h"

namespace sluice {

double ShapePolynomial::at(const MicrobatchShape& shape) const {
  const auto rows = static_cast<double>(shape.rows), length = static_cast<double>(shape.length);
  return constant + length * per_length +
         rows * (per_row + length * (per_token + length * per_pair));
}

}  // namespace sluice
