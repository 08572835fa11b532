// The distance of two tensors, for bounds of rounding errors.
#pragma once

#include <ATen/ATen.h>

namespace sluice::test {

// ||found - expected|| / ||expected||. It averages the rounding errors of all elements, while the
// error of a single element is one sample, which every processor draws anew.
inline double relative_distance(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor wide = expected.detach().to(at::kDouble);
  return (found.detach().to(at::kDouble) - wide).norm().item<double>() / wide.norm().item<double>();
}

}  // namespace sluice::test
