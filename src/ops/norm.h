// Norms inside fused blocks.
//
// Owns: NormWeights, what a norm keeps for its backward.
// Does not own: the arithmetic (kernels.h).
// Thread-safety: pure functions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/kernel_sizes.h"
#include "ops/products.h"

namespace sluice::ops {

// Zhang and Sennrich, arXiv:1910.07467; Ba et al., arXiv:1607.06450. CPU, float32, contiguous.
struct NormWeights {
  enum class Kind : std::uint8_t { kNone, kRms, kLayer };
  Kind kind = Kind::kNone;
  at::Tensor weight = {}, bias = {};  // bias: of kLayer
  double eps = 0;
  float offset = 0;  // of the weights of kRms: 1 in Gemma
  bool is_there() const { return kind != Kind::kNone; }
  std::int64_t width() const { return weight.numel(); }
  std::int64_t weight_floats() const {
    return weight.numel() + (bias.defined() ? bias.numel() : 0);
  }
};

// statistics [kNormFloats, rows] are written. kLayer: rows of x and y follow each other.
void norm(const NormWeights& weights, std::int64_t rows, ConstRows x, Rows y, float* statistics);
// dx = residual (null: 0; as dx) + the gradient of x; weight_gradients [weight_floats()]: those of
// weight and bias, null: not wanted. dx may be dy or the residual.
void norm_gradient(const NormWeights& weights, std::int64_t rows, ConstRows dy, ConstRows x,
                   const float* statistics, const float* residual, Rows dx,
                   float* weight_gradients);

}  // namespace sluice::ops
