// Float32 products with the weights of linear layers. Rows of x and y may be columns of a wider
// matrix.
//
// base/product_kind.h chooses between our kernels and LibTorch's BLAS. Bits of our products depend
// on the operands only, and each row of y and dx only on one row of the input. Bits of LibTorch's
// products also depend on the number of threads and rows, and on addresses modulo 64 bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

// A linear layer y = x W^T + bias. Tensors are contiguous float32 on the CPU.
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

// "own products" (our kernels), "products of LibTorch's BLAS", or "products of LibTorch" if there
// is no BLAS function.
const char* products_name();

// Computes y = scale * (x W^T) + bias, and adds the old y if `adds`.
void linear(std::int64_t rows, const LinearWeights& weights, ConstRows x, Rows y, float scale = 1,
            bool adds = false);
// Computes dx = scale * (dy W), and adds the old dx if `adds`.
void linear_input_gradient(std::int64_t rows, const LinearWeights& weights, ConstRows dy, Rows dx,
                           float scale = 1, bool adds = false);
// Computes gradient = scale * (dy^T x), and adds the old gradient if `adds`. Uses only the weight's
// shape.
void linear_weight_gradient(std::int64_t rows, const LinearWeights& weights, ConstRows dy,
                            ConstRows x, Rows gradient, float scale, bool adds);

}  // namespace sluice::ops
