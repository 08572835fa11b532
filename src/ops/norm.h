#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/kernel_sizes.h"
#include "ops/products.h"

namespace sluice::ops {

// An RMS norm (arXiv:1910.07467) or layer norm (arXiv:1607.06450). Tensors are contiguous.
struct NormWeights {
  enum class Kind : std::uint8_t { kNone, kRms, kLayer };
  Kind kind = Kind::kNone;
  at::Tensor weight = {}, bias = {};
  double eps = 0;
  float offset = 0;  // added to an RMS norm's weight; 1 in Gemma
  bool is_there() const { return kind != Kind::kNone; }
  std::int64_t width() const { return weight.numel(); }
  std::int64_t weight_floats() const {
    return weight.numel() + (bias.defined() ? bias.numel() : 0);
  }
};

// Writes y and statistics [kNormFloats, rows]. Layer norms require contiguous x and y.
void norm(const NormWeights& weights, std::int64_t rows, ConstRows x, Rows y, float* statistics);
// Computes dx = residual + the gradient of x. `residual` and weight_gradients [weight_floats()] may
// be null. The residual has dx's row stride. dx may overwrite dy or residual.
void norm_gradient(const NormWeights& weights, std::int64_t rows, ConstRows dy, ConstRows x,
                   const float* statistics, const float* residual, Rows dx,
                   float* weight_gradients);

}  // namespace sluice::ops
