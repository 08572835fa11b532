// Slices inside an autograd node, for ranks that share a layer (sluice/parts/tensor_parallel.h).
//
// For the same bits on any number of ranks, we compute each slice separately, from the same memory
// layout, which may require copying weights. Slices are added as a tree (parallel/tree_exchange.h).
// With one slice per rank, nothing is copied or buffered.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/kept_memory.h"
#include "ops/kernels/kernels.h"
#include "ops/norm.h"
#include "ops/products.h"
#include "ops/split_node.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

inline bool is_sliced(const SliceGroup& tp) { return tp.slices().count > 1; }
// True if sequence parallelism divides rows among ranks.
inline bool divides_rows(const SliceGroup& tp) { return tp.sequence_parallel() && tp.degree() > 1; }

inline std::int64_t aligned_floats(std::int64_t floats) { return (floats + 15) / 16 * 16; }

// Consecutive rows that belong to one slice and one sequence.
struct RowBlock {
  std::int64_t slice = 0;
  std::int64_t first = 0, rows = 0;
};
// Returns blocks of x [B, L, D], by slice, then by sequence. A single slice has one block.
// is_whole: x has the rows of all ranks.
std::vector<RowBlock> row_blocks(const at::Tensor& x, const SliceGroup& tp, bool is_whole = false);

// A slice's outputs or inputs of a linear layer, within one section, such as all queries.
struct LinearPart {
  bool of_inputs = false;
  std::int64_t first = 0, size = 0;  // position among this rank's outputs or inputs
  std::int64_t length = 0;           // of the whole section, on all ranks
};
// Returns a part's weights, with the bias only for outputs.
LinearWeights weights_of(const LinearWeights& own, const LinearPart& part);
LinearWeights weights_of(const LinearWeights& own, const std::vector<LinearPart>& parts);
// Adds a part's gradient to `target`, the gradient of all weights on this rank.
void add_weight_gradient(std::int64_t rows, const LinearWeights& own, const LinearPart& part,
                         const SliceGroup& tp, ConstRows dy, ConstRows x, float scale,
                         const WeightGradients::Target& target);
void add_bias_gradient(std::int64_t rows, const LinearPart& part, ConstRows dy,
                       const WeightGradients::Target& target);
// Stores the gradient of a bias that is added after the sum over slices. `blocks` has the rows of
// all ranks.
void give_shared_bias(const std::vector<RowBlock>& blocks, std::int64_t width, const float* dy,
                      std::size_t index, WeightGradients& gradients);

// Sums slices as a tree: leaf(slice, to) writes a slice's `size` floats. Writes the sum to `out`.
template <typename Leaf>
void sum_slices(std::int64_t begin, std::int64_t end, std::int64_t size, float* out,
                const Leaf& leaf) {
  if (end - begin == 1) return leaf(begin, out);
  const std::int64_t middle = begin + (end - begin) / 2;
  sum_slices(begin, middle, size, out, leaf);
  const KeptBlock right = take_memory(size);
  sum_slices(middle, end, size, right.data(), leaf);
  kernels().add_scaled(size, 1, right.data(), out);
}

// Norms of contiguous rows, block by block. Weight gradients are summed over this rank's slices.
void norm_blocks(const NormWeights& weights, const std::vector<RowBlock>& blocks, const float* x,
                 float* y, float* statistics);
void norm_gradient_blocks(const NormWeights& weights, const std::vector<RowBlock>& blocks,
                          const float* dy, const float* x, const float* statistics,
                          const float* residual, float* dx, float* weight_gradients);

// ---- communication between ranks; no effect with one rank ----

// Returns the rows of all ranks, or x if ranks do not divide rows.
at::Tensor gathered_rows(const at::Tensor& x, const SliceGroup& tp);
// Return the sum over ranks, but only this rank's rows if ranks divide rows.
at::Tensor summed_rows(const at::Tensor& own, const SliceGroup& tp);
Work<at::Tensor> start_summed_rows(const at::Tensor& own, const SliceGroup& tp);
// Throws Error(kUsage) unless x has `length` rows per sequence.
void require_even_rows(const at::Tensor& x, std::int64_t length);
void sum_over_ranks(float* values, std::int64_t size, const SliceGroup& tp);

}  // namespace sluice::ops
