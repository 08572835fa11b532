// Products of float32 matrices with the weights of linear layers, on rows that may lie in columns
// of a wider matrix.
//
// Owns: LinearWeights, how our own products (kernels.h) and those of the matrix library behind
// LibTorch are called. A program that is linked with another BLAS gets that one's, which then
// decides about threads.
// Does not own: which of both a process takes (base/product_kind.h), what is computed between
// products (kernels.h), autograd (split_node.h).
//
// Invariants:
//  1. The bits of a result are a function of its operands and, of the library's, of the number of
//     threads and of where operands lie, modulo 64 bytes.
//  2. Of our own products, rows of x do not change each other's bits in y and dx. Of the library's
//     they do: a product of another number of rows may add up in another order.
// Thread-safety: pure functions; as many threads as at::get_num_threads() on the calling thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

// y = x W^T + bias. CPU, float32, contiguous.
struct LinearWeights {
  at::Tensor weight;     // [out, in]; transposed (GPT-2's Conv1D): [in, out]
  at::Tensor bias = {};  // [out], or undefined
  bool is_transposed = false;
  std::int64_t out() const { return weight.size(is_transposed ? 1 : 0); }
  std::int64_t in() const { return weight.size(is_transposed ? 0 : 1); }
};

// Rows of floats, `stride` apart.
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

// "own products", "products of LibTorch's BLAS", or "products of LibTorch" where that BLAS cannot
// be called by name.
const char* products_name();

// y = scale * (x W^T) (+ y, where it adds), and the bias, which is not scaled.
void linear(std::int64_t rows, const LinearWeights& weights, ConstRows x, Rows y, float scale = 1,
            bool adds = false);
// dx = scale * (dy W) (+ dx).
void linear_input_gradient(std::int64_t rows, const LinearWeights& weights, ConstRows dy, Rows dx,
                           float scale = 1, bool adds = false);
// gradient [as the weight] = scale * (dy^T x) (+ gradient). Of the weights only the shape is read.
void linear_weight_gradient(std::int64_t rows, const LinearWeights& weights, ConstRows dy,
                            ConstRows x, Rows gradient, float scale, bool adds);

}  // namespace sluice::ops
