// How far two stored tensors of one shape are apart.
#pragma once

#include <cstdint>

#include "report/compare/float_values.h"
#include "report/compare/stored_tensors.h"

namespace sluice {

struct TensorDistance {
  std::int64_t elements = 0;
  std::int64_t different = 0;   // elements with another value
  std::int64_t not_finite = 0;  // elements that are finite in one tensor only
  std::int64_t first = -1;      // index of the first different element
  double norm_a = 0, norm_b = 0;
  double norm_difference = 0;
  double largest_difference = 0;
  double largest_ulps = 0;
  // b is nearest to `scale` * a, at a distance of norm_residual.
  double scale = 1;
  double norm_residual = 0;

  bool equal() const { return different == 0; }
  // Norm of the difference, relative to the larger norm.
  double relative() const;
  double rms() const;  // of the larger tensor
};

// The shapes must be equal. Units in the last place are those of the coarser dtype. Throws
// Error(kInput) for a tensor that is neither floating-point nor equal in bytes.
TensorDistance tensor_distance(const StoredTensor& a, const StoredTensor& b, TensorFiles& files);

double tensor_rms(const StoredTensor& tensor, TensorFiles& files);

// Returns the share of elements, not counting pairs of zeros, that differ by more than `bound`
// times the larger of the two values and the tensor's rms.
double share_beyond(const StoredTensor& a, const StoredTensor& b, double rms, double bound,
                    TensorFiles& files);

}  // namespace sluice
