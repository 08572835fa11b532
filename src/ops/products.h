// Float32 products with the weights of linear layers. Rows may be columns of a wider matrix.
//
// base/product_kind.h chooses between our kernels and LibTorch's BLAS.
//
// Bits of our products depend on the operands only, and rows of x do not affect each other in y and
// dx. Bits of LibTorch's products also depend on the number of threads and rows, and on addresses
// modulo 64 bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

// y = x W^T + bias. CPU, float32, contiguous.
struct LinearWeights {
  at::Tensor weight;     // [out, in]; transposed (GPT-2's Conv1D): [in, out]
  at::Tensor bias = {};  // may be undefined
  bool is_transposed = false;
  std::int64_t out() const { return weight.size(is_transposed ? 1 : 0); }
  std::int64_t in() const { return weight.size(is_transposed ? 0 : 1); }
};

struct Rows {
  float* data = nullptr;
  std::int64_t stride = 0;
};
struct ConstRows {
  const float* data = nullptr;
  std::int64_t stride = 0;
  ConstRows(const float* first, std::int64_t apart) : data(first), stride(apart) {}
  ConstRows(const Rows& rows) : data(rows.data), stride(rows.stride) {}  // NOLINT: as a span
};

// "own products", "products of LibTorch's BLAS", or "products of LibTorch" if the BLAS function is
// not available.
const char* products_name();

// y = scale * (x W^T) + bias (+ y if `adds`).
void linear(std::int64_t rows, const LinearWeights& weights, ConstRows x, Rows y, float scale = 1,
            bool adds = false);
// dx = scale * (dy W) (+ dx).
void linear_input_gradient(std::int64_t rows, const LinearWeights& weights, ConstRows dy, Rows dx,
                           float scale = 1, bool adds = false);
// gradient = scale * (dy^T x) (+ gradient). Uses only the weights' shape.
void linear_weight_gradient(std::int64_t rows, const LinearWeights& weights, ConstRows dy,
                            ConstRows x, Rows gradient, float scale, bool adds);

}  // namespace sluice::ops
