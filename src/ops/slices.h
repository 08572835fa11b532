// Slices inside an autograd node. Ranks that share a layer (sluice/parts/tensor_parallel.h) each
// compute some slices of it.
//
// Results have the same bits on any number of ranks. Each slice is therefore computed separately,
// with the same memory layout everywhere: a slice's weights are copied if their layout would change
// the bits. Sums over slices are added as a tree (parallel/tree_exchange.h). Only the sizes of the
// whole layer decide which products accumulate in place. With as many slices as ranks, no weight is
// copied and no sum needs a buffer. A single slice runs as if there were no slices.
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
// True if each rank holds only its own rows of the node's input and output.
inline bool divides_rows(const SliceGroup& tp) { return tp.sequence_parallel() && tp.degree() > 1; }

// Rounds up to whole cache lines, so that memory placed behind `floats` is aligned.
inline std::int64_t aligned_floats(std::int64_t floats) { return (floats + 15) / 16 * 16; }

// Consecutive rows of one slice and one sequence.
struct RowBlock {
  std::int64_t slice = 0;  // index among the slices of this rank
  std::int64_t first = 0, rows = 0;
};
// Returns the blocks of x [B, L, D], ordered by slice, then by sequence. A single slice has one
// block of all rows. is_whole: x holds the rows of all ranks.
std::vector<RowBlock> row_blocks(const at::Tensor& x, const SliceGroup& tp, bool is_whole = false);

// The outputs or inputs of a linear layer that belong to one slice, within one section (such as all
// queries).
struct LinearPart {
  bool of_inputs = false;
  std::int64_t first = 0, size = 0;  // among those that this rank holds
  std::int64_t length = 0;           // of the section over all ranks
};
// Returns the weights of a part, for linear() and linear_input_gradient(). Only parts of outputs
// include the bias.
LinearWeights weights_of(const LinearWeights& own, const LinearPart& part);
// Returns the weights of several parts of outputs, side by side. All outputs return the weights
// themselves.
LinearWeights weights_of(const LinearWeights& own, const std::vector<LinearPart>& parts);
// Computes the gradient of a part. `target` is the gradient of all weights that this rank holds.
void add_weight_gradient(std::int64_t rows, const LinearWeights& own, const LinearPart& part,
                         const SliceGroup& tp, ConstRows dy, ConstRows x, float scale,
                         const WeightGradients::Target& target);
// The same for the bias of a part of outputs.
void add_bias_gradient(std::int64_t rows, const LinearPart& part, ConstRows dy,
                       const WeightGradients::Target& target);
// Computes the gradient of a bias that is added after the sum over slices. `blocks` covers the rows
// of all ranks.
void give_shared_bias(const std::vector<RowBlock>& blocks, std::int64_t width, const float* dy,
                      std::size_t index, WeightGradients& gradients);

// leaf(slice, to) writes a slice's term. Sums the terms of slices [begin, end) into out [size], as
// a tree.
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

// norm() and norm_gradient() block by block, for contiguous rows. Weight gradients are summed over
// the slices of this rank.
void norm_blocks(const NormWeights& weights, const std::vector<RowBlock>& blocks, const float* x,
                 float* y, float* statistics);
void norm_gradient_blocks(const NormWeights& weights, const std::vector<RowBlock>& blocks,
                          const float* dy, const float* x, const float* statistics,
                          const float* residual, float* dx, float* weight_gradients);

// ---- exchanges (nothing happens with a single rank) ----

// Gathers the rows of all ranks. Returns x itself if every rank holds all rows.
at::Tensor gathered_rows(const at::Tensor& x, const SliceGroup& tp);
// Returns the sum over all ranks. Each rank gets only its own rows if ranks divide the rows.
at::Tensor summed_rows(const at::Tensor& own, const SliceGroup& tp);
Work<at::Tensor> start_summed_rows(const at::Tensor& own, const SliceGroup& tp);
// Throws Error(kUsage) unless the gathered x has `length` rows per sequence. It has not if ranks
// hold different numbers of rows.
void require_even_rows(const at::Tensor& x, std::int64_t length);
// Sums `values` over all ranks, in place.
void sum_over_ranks(float* values, std::int64_t size, const SliceGroup& tp);

}  // namespace sluice::ops
