// With as many slices as ranks, a fused node must compute and allocate no more than a plain split.
// This program replaces LibTorch's BLAS product by its own, which counts calls.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention_block.h"
#include "ops/feed_forward_block.h"
#include "parallel/counted_operators.h"
#include "parallel/slice_ranks.h"
#include "parallel/tree_exchange.h"

namespace {

struct Products {
  std::int64_t number = 0, multiplications = 0;
  bool operator==(const Products&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Products& some) {
    return out << some.number << " products, " << some.multiplications << " multiplications";
  }
};
thread_local Products products;

// The setting must be in place before the process computes its first product.
[[maybe_unused]] const int kSet = setenv("SLUICE_PRODUCTS", "libtorch", 1);

}  // namespace

// Computes column-major C [m, n] = alpha * op(A) op(B) + beta * C, as BLAS defines it.
extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c,
                       const int* ldc) {
  ++products.number;
  products.multiplications += std::int64_t{*m} * *n * *k;
  const bool ta = *transpose_a == 'T', tb = *transpose_b == 'T';
  for (int column = 0; column < *n; ++column) {
    for (int row = 0; row < *m; ++row) {
      float sum = 0;
      for (int i = 0; i < *k; ++i)
        sum +=
            a[ta ? row * *lda + i : i * *lda + row] * b[tb ? i * *ldb + column : column * *ldb + i];
      float& to = c[column * *ldc + row];
      to = *alpha * sum + (*beta == 0 ? 0 : *beta * to);
    }
  }
}

namespace sluice::test::counted_products_test {
namespace {

constexpr std::int64_t kHidden = 32, kInner = 64, kHeads = 4, kHeadDim = 16;
constexpr std::int64_t kBatch = 2, kLength = 8;

struct Counted {
  Products products;
  OperatorCounts operators;
  int of(const std::vector<std::string>& names) const { return sum_of(operators, names); }
};

Counted counted(const std::function<void()>& body) {
  products = {};
  OperatorCounts operators = operators_of(body);
  return {products, std::move(operators)};
}

at::Tensor weight(const char* name, at::IntArrayRef sizes) {
  return drawn(name, sizes, 0.2).requires_grad_();
}

ops::NormWeights norm_weights() {
  return {.kind = ops::NormWeights::Kind::kRms,
          .weight = at::ones({kHidden}).requires_grad_(),
          .eps = 1e-5};
}

// A node with 1 / parts of the heads. The slices are those of tp, or there is one slice.
at::Tensor attention(const at::Tensor& x, std::int64_t parts, const SliceGroup& tp) {
  const std::int64_t width = kHeads / parts * kHeadDim,
                     heads = kHeads / ((tp.slices().count == 1) ? parts : 1);
  return ops::attention_block(x,
                              {.half = {.before = norm_weights(),
                                        .projections = {{weight("q", {width, kHidden})},
                                                        {weight("k", {width, kHidden})},
                                                        {weight("v", {width, kHidden})}},
                                        .last = {weight("o", {kHidden, width})},
                                        .slices = tp},
                               .num_heads = heads,
                               .num_key_value_heads = heads,
                               .head_dim = kHeadDim},
                              {});
}

at::Tensor feed_forward(const at::Tensor& x, std::int64_t parts, const SliceGroup& tp) {
  const std::int64_t width = kInner / parts;
  return ops::feed_forward_block(x, {.half = {.before = norm_weights(),
                                              .projections = {{weight("gate", {width, kHidden})},
                                                              {weight("up", {width, kHidden})}},
                                              .last = {weight("down", {kHidden, width})},
                                              .slices = tp},
                                     .width = (tp.slices().count == 1) ? width : kInner});
}

using Node = at::Tensor (*)(const at::Tensor& x, std::int64_t parts, const SliceGroup& tp);

// Counts the second step, because the first one allocates memory that nodes keep.
Counted counted_step(Node node, const at::Tensor& x, std::int64_t parts, const SliceGroup& tp) {
  const auto step = [&] {
    const at::Tensor input = x.clone().requires_grad_();
    node(input, parts, tp).backward(at::ones_like(x));
  };
  step();
  return counted(step);
}

// Counts the exchanges that any split needs: inputs and outputs, forward and backward. If rows are
// divided, the gradient of the norm is exchanged too.
Counted counted_exchanges(const at::Tensor& x, const SliceGroup& tp) {
  return counted([&] {
    for (int i = 0; i < 2; ++i) {
      if (tp.sequence_parallel()) {
        const at::Tensor rows = x.narrow(1, 0, kLength / tp.degree());
        detail::all_gather(rows, 1, tp);
        detail::tree_reduce_scatter(x, 1, tp);
      } else {
        detail::tree_all_reduce(x, tp);
      }
    }
    if (tp.sequence_parallel()) detail::tree_all_reduce(at::ones({kHidden}), tp);
  });
}

// In a plain split, each rank computes a block with its part of the heads or of the width.
void expect_plain_split(Node node) {
  static const std::vector<std::string> kAdditions = {"aten::add", "aten::add_", "aten::sum"};
  static const std::vector<std::string> kBuffers = {"aten::empty", "aten::empty_strided",
                                                    "aten::new_empty"};
  // A divided node exchanges the normed rows as a tensor. A whole node uses memory that it keeps.
  static constexpr int kNormedRows = 1;
  for (const int degree : {2, 4}) {
    for (const bool sequence : {false, true}) {
      SCOPED_TRACE(name_of({degree, degree, sequence}));
      on_slice_ranks({degree, degree, sequence}, [&](const SliceGroup& tp) -> FoundByName {
        const at::Tensor x = drawn("x", {kBatch, kLength, kHidden});
        const at::Tensor own = sequence ? x.narrow(1, 0, kLength / degree).contiguous() : x;
        const Counted divided = counted_step(node, own, degree, tp);
        const Counted plain = counted_step(node, x, degree, {});
        const Counted exchanges = counted_exchanges(x, tp);
        EXPECT_GT(plain.products.number, 0);
        EXPECT_EQ(divided.products, plain.products);
        EXPECT_GT(divided.of(kAdditions), 0);
        EXPECT_LE(divided.of(kAdditions), plain.of(kAdditions) + exchanges.of(kAdditions));
        EXPECT_LE(divided.of(kBuffers), plain.of(kBuffers) + exchanges.of(kBuffers) + kNormedRows);
        return {};
      });
    }
  }
}

TEST(CountedProductsTest, AttentionInAsManySlicesAsRanksIsAPlainSplit) {
  expect_plain_split(attention);
}

TEST(CountedProductsTest, AFeedForwardInAsManySlicesAsRanksIsAPlainSplit) {
  expect_plain_split(feed_forward);
}

}  // namespace
}  // namespace sluice::test::counted_products_test
