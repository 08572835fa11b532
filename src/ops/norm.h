// Norms inside fused blocks.
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
  at::Tensor weight = {}, bias = {};  // only kLayer has a bias
  double eps = 0;
  float offset = 0;  // added to the weights of kRms; 1 in Gemma
  bool is_there() const { return kind != Kind::kNone; }
  std::int64_t width() const { return weight.numel(); }
  std::int64_t weight_floats() const {
    return weight.numel() + (bias.defined() ? bias.numel() : 0);
  }
};

// Writes statistics [kNormFloats, rows] for the backward. With kLayer, x and y must be contiguous.
void norm(const NormWeights& weights, std::int64_t rows, ConstRows x, Rows y, float* statistics);
// dx = residual + the gradient of x. A null residual counts as 0; else its rows lie as those of dx.
// Writes the gradients of weight and bias to weight_gradients [weight_floats()] unless it is null.
// dx may share memory with dy or the residual.
void norm_gradient(const NormWeights& weights, std::int64_t rows, ConstRows dy, ConstRows x,
                   const float* statistics, const float* residual, Rows dx,
                   float* weight_gradients);

}  // namespace sluice::ops
