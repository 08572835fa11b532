// Slices inside a node: ranks that share a layer each compute some of them
// (sluice/parts/tensor_parallel.h).
//
// Every slice is computed by itself, from memory of the same layout on every number of ranks:
// weights of a slice that others lie beside are copied where their layout would tell. What slices
// add up goes through the tree. One slice: the node as it is without.
//
// Owns: parts of weights and of rows, sums over the slices of this rank, exchanges with the others.
// Does not own: the tree over ranks (parallel/tree_exchange.h), what is computed of a slice.
// Invariants:
//  1. Which products add in place, and which are added afterwards, is a function of sizes in the
//     whole.
//  2. With as many slices as ranks no weight is copied and no sum takes a buffer of its own.
// Thread-safety: one rank's thread.
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
// True if each rank has its rows of what enters and leaves.
inline bool divides_rows(const SliceGroup& tp) { return tp.sequence_parallel() && tp.degree() > 1; }

// As many as `floats` at least, after which memory lies as if it began there.
inline std::int64_t aligned_floats(std::int64_t floats) { return (floats + 15) / 16 * 16; }

// Neighbouring rows of one slice and sequence, in the order of slices, then of sequences.
struct RowBlock {
  std::int64_t slice = 0;  // the first one here is 0
  std::int64_t first = 0, rows = 0;
};
// The blocks of x [B, L, D] with the rows of this rank; of one slice all rows are one block.
// is_whole: of x with all rows.
std::vector<RowBlock> row_blocks(const at::Tensor& x, const SliceGroup& tp, bool is_whole = false);

// Outputs, or inputs, of a linear layer: what a slice has of one of its sections.
struct LinearPart {
  bool of_inputs = false;
  std::int64_t first = 0, size = 0;  // of those that this rank has
  std::int64_t length = 0;           // of the section in the whole
};
// The weights of a part, with the bias of outputs, for linear() and linear_input_gradient().
LinearWeights weights_of(const LinearWeights& own, const LinearPart& part);
// Those of several parts of outputs, side by side; of all outputs the weights themselves.
LinearWeights weights_of(const LinearWeights& own, const std::vector<LinearPart>& parts);
// The gradient of a part, where that of all that this rank has is at `target`.
void add_weight_gradient(std::int64_t rows, const LinearWeights& own, const LinearPart& part,
                         const SliceGroup& tp, ConstRows dy, ConstRows x, float scale,
                         const WeightGradients::Target& target);
// The same of the bias of outputs.
void add_bias_gradient(std::int64_t rows, const LinearPart& part, ConstRows dy,
                       const WeightGradients::Target& target);
// The gradient of a bias that all slices share, added behind their sum: by the blocks of all rows.
void give_shared_bias(const std::vector<RowBlock>& blocks, std::int64_t width, const float* dy,
                      std::size_t index, WeightGradients& gradients);

// out [size] = the sum of what leaf(slice, to) writes for slices [begin, end), in the tree.
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

// norm() and norm_gradient() of rows that lie behind each other, block by block. The gradients of
// weights are the sum over the slices that are here.
void norm_blocks(const NormWeights& weights, const std::vector<RowBlock>& blocks, const float* x,
                 float* y, float* statistics);
void norm_gradient_blocks(const NormWeights& weights, const std::vector<RowBlock>& blocks,
                          const float* dy, const float* x, const float* statistics,
                          const float* residual, float* dx, float* weight_gradients);

// ---- exchanges: of one rank nothing happens ----

// All rows of what has those of this rank, or x itself where rows are not divided.
at::Tensor gathered_rows(const at::Tensor& x, const SliceGroup& tp);
// The sum over all ranks; the rows of this one where they are divided.
at::Tensor summed_rows(const at::Tensor& own, const SliceGroup& tp);
Work<at::Tensor> start_summed_rows(const at::Tensor& own, const SliceGroup& tp);
// Throws Error(kUsage) unless x, which was gathered, has as many rows of a sequence as ranks with
// `length` / degree of them each.
void require_even_rows(const at::Tensor& x, std::int64_t length);
// In place, the sums over all ranks.
void sum_over_ranks(float* values, std::int64_t size, const SliceGroup& tp);

}  // namespace sluice::ops
