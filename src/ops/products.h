// Products of float32 matrices with the weights of linear layers. Rows may be columns of a wider
// matrix.
//
// base/product_kind.h chooses between our own products (kernels.h) and the BLAS behind LibTorch. A
// program that is linked with another BLAS uses that BLAS, including its threads. Otherwise
// products use at::get_num_threads() threads.
//
// The bits of our own products depend only on the operands, and rows of x do not affect each
// other's bits in y and dx. The bits of LibTorch's products also depend on the number of threads,
// on the number of rows, and on the addresses of the operands modulo 64 bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

// y = x W^T + bias. CPU, float32, contiguous.
struct LinearWeights {
  at::Tensor weight;     // [out, in], or [in, out] if transposed (GPT-2's Conv1D)
  at::Tensor bias = {};  // [out], or undefined
  bool is_transposed = false;
  std::int64_t out() const { return weight.size(is_transposed ? 1 : 0); }
  std::int64_t in() const { return weight.size(is_transposed ? 0 : 1); }
};

// `stride` is in floats.
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

// Returns "own products", "products of LibTorch's BLAS", or "products of LibTorch" if the program
// cannot call that BLAS directly.
const char* products_name();

// y = scale * (x W^T) + bias, plus the old y if `adds`.
void linear(std::int64_t rows, const LinearWeights& weights, ConstRows x, Rows y, float scale = 1,
            bool adds = false);
// dx = scale * (dy W), plus the old dx if `adds`.
void linear_input_gradient(std::int64_t rows, const LinearWeights& weights, ConstRows dy, Rows dx,
                           float scale = 1, bool adds = false);
// gradient = scale * (dy^T x), plus the old gradient if `adds`. Reads only the shape of the
// weights.
void linear_weight_gradient(std::int64_t rows, const LinearWeights& weights, ConstRows dy,
                            ConstRows x, Rows gradient, float scale, bool adds);

}  // namespace sluice::ops
