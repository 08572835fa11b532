#include "ops/products.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>

#include "base/product_kind.h"
#include "ops/kernels/kernels.h"
#include "ops/parallel_rows.h"

// From the BLAS inside libtorch_cpu (MKL in published builds), which has no header.
extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc)
    __attribute__((weak));

namespace sluice::ops {
namespace {

// The column-major product C [m, n] = alpha * op(A) op(B) + beta * C.
struct Product {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  const float* a;
  std::int64_t lda;
  const float* b;
  std::int64_t ldb;
  float* c;
  std::int64_t ldc;
};

bool has_own_products() {
  static const bool own = product_kind() == ProductKind::kOwn;
  return own;
}

at::Tensor matrix(const float* data, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return at::from_blob(const_cast<float*>(data), {rows, columns}, {stride, 1}, at::kFloat);
}

void run_own(const Product& p, float scale, bool adds) {
  for_rows(p.n, [&](std::int64_t begin, std::int64_t end) {
    thread_local const std::unique_ptr<float[]> scratch(
        new float[static_cast<std::size_t>(kernels().product_scratch())]);
    kernels().product({.rows = end - begin,
                       .columns = p.m,
                       .depth = p.k,
                       .a = p.b + begin * (p.transpose_b ? 1 : p.ldb),
                       .a_row = p.transpose_b ? 1 : p.ldb,
                       .a_column = p.transpose_b ? p.ldb : 1,
                       .b = p.a,
                       .b_row = p.lda,
                       .b_transposed = p.transpose_a,
                       .c = p.c + begin * p.ldc,
                       .c_row = p.ldc,
                       .scale = scale,
                       .add = adds,
                       .scratch = scratch.get()});
  });
}

void run_sgemm(const Product& p, float alpha, float beta) {
  const auto as_int = [](std::int64_t size) {
    TORCH_INTERNAL_ASSERT_DEBUG_ONLY(size <= std::numeric_limits<int>::max());
    return static_cast<int>(size);
  };
  const int m = as_int(p.m), n = as_int(p.n), k = as_int(p.k), lda = as_int(p.lda),
            ldb = as_int(p.ldb), ldc = as_int(p.ldc);
  sgemm_(p.transpose_a ? "T" : "N", p.transpose_b ? "T" : "N", &m, &n, &k, &alpha, p.a, &lda, p.b,
         &ldb, &beta, p.c, &ldc);
}

// Adds a product of depth 1, such as the weight gradient of a single row. Here MKL on Intel
// processors multiplies and adds with one rounding. The result would differ from the sum of
// separate gradients, so we compute the product first.
void add_outer_product(Product p, float alpha) {
  constexpr std::int64_t kScratch = 16'384;
  const std::int64_t step = std::max<std::int64_t>(1, kScratch / p.m), columns = p.n;
  std::vector<float> scratch(static_cast<std::size_t>(p.m * std::min(step, columns)));
  float* const sum = std::exchange(p.c, scratch.data());
  const std::int64_t sum_stride = std::exchange(p.ldc, p.m);
  for (std::int64_t begin = 0; begin < columns; begin += step) {
    p.n = std::min(step, columns - begin);
    run_sgemm(p, alpha, 0);
    for (std::int64_t i = 0; i < p.n; ++i)
      kernels().add_scaled(p.m, 1, p.c + i * p.m, sum + (begin + i) * sum_stride);
    p.b += p.n * (p.transpose_b ? 1 : p.ldb);
  }
}

void run(const Product& p, float alpha, float beta) {
  if (p.m == 0 || p.n == 0) return;
  if (has_own_products()) return run_own(p, alpha, beta != 0);
  if (sgemm_) {
    if (p.k == 1 && beta == 1) return add_outer_product(p, alpha);
    return run_sgemm(p, alpha, beta);
  }
  const at::NoGradGuard no_grad;
  const at::Tensor a =
      p.transpose_a ? matrix(p.a, p.m, p.k, p.lda).t() : matrix(p.a, p.k, p.m, p.lda);
  const at::Tensor b =
      p.transpose_b ? matrix(p.b, p.k, p.n, p.ldb).t() : matrix(p.b, p.n, p.k, p.ldb);
  at::Tensor c = matrix(p.c, p.n, p.m, p.ldc);
  at::addmm_out(c, c, b, a, beta, alpha);
}

}  // namespace

const char* products_name() {
  if (has_own_products()) return "own products";
  return sgemm_ ? "products of LibTorch's BLAS" : "products of LibTorch";
}

void linear(std::int64_t rows, const LinearWeights& w, ConstRows x, Rows y, float scale,
            bool adds) {
  run({.transpose_a = !w.is_transposed,
       .transpose_b = false,
       .m = w.out(),
       .n = rows,
       .k = w.in(),
       .a = w.weight.const_data_ptr<float>(),
       .lda = w.weight.size(1),
       .b = x.data,
       .ldb = x.stride,
       .c = y.data,
       .ldc = y.stride},
      scale, adds ? 1.0F : 0.0F);
  if (w.bias.defined())
    kernels().add_bias(rows, w.out(), w.bias.const_data_ptr<float>(), y.data, y.stride);
}

void linear_input_gradient(std::int64_t rows, const LinearWeights& w, ConstRows dy, Rows dx,
                           float scale, bool adds) {
  run({.transpose_a = w.is_transposed,
       .transpose_b = false,
       .m = w.in(),
       .n = rows,
       .k = w.out(),
       .a = w.weight.const_data_ptr<float>(),
       .lda = w.weight.size(1),
       .b = dy.data,
       .ldb = dy.stride,
       .c = dx.data,
       .ldc = dx.stride},
      scale, adds ? 1.0F : 0.0F);
}

void linear_weight_gradient(std::int64_t rows, const LinearWeights& w, ConstRows dy, ConstRows x,
                            Rows gradient, float scale, bool adds) {
  const ConstRows &left = w.is_transposed ? dy : x, &right = w.is_transposed ? x : dy;
  run({.transpose_a = false,
       .transpose_b = true,
       .m = w.weight.size(1),
       .n = w.weight.size(0),
       .k = rows,
       .a = left.data,
       .lda = left.stride,
       .b = right.data,
       .ldb = right.stride,
       .c = gradient.data,
       .ldc = gradient.stride},
      scale, adds ? 1.0F : 0.0F);
}

}  // namespace sluice::ops
