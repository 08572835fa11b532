#pragma once

#include <ATen/ATen.h>

namespace sluice::test {

// ||found - expected|| / ||expected||. This averages the rounding errors of all elements. A single
// element's error would differ on every processor.
inline double relative_distance(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor wide = expected.detach().to(at::kDouble);
  return (found.detach().to(at::kDouble) - wide).norm().item<double>() / wide.norm().item<double>();
}

}  // namespace sluice::test
