// Divides a parameter into blocks for the gradient norm and sharded optimizers. A section is one
// projection in a weight, such as q of qkv. Under tensor parallelism, each section is divided into
// slices, and a rank holds adjacent slices. Each replica that shards the optimizer owns a range of
// whole blocks. The norm adds the blocks' sums of squares. No block spans two slices, so a slice
// has the same norm on any rank:
//
//   divided along dimension 0         every slice of every section is contiguous, and a block is
//                                     kGradientBlock of its elements
//   divided along another dimension   a block is some rows (all dimensions before it) of each
//                                     slice, the same number on every rank
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "optim/gradient_norm.h"
#include "sluice/layer.h"

namespace sluice {

// Sums of squares as [slice][block], for this rank's slices, blocks in memory order.
using SliceSquares = std::vector<std::vector<double>>;

// Returns the ends of the blocks in memory, ascending. The last is numel(). The parameter must be
// divided and contiguous.
std::vector<std::int64_t> block_ends(const ParameterInfo& parameter);

// Returns sums of squares of elements [begin, begin + flat.numel()) of the parameter's gradient.
// Both ends must be block ends.
SliceSquares slice_squares(const ParameterInfo& parameter, const at::Tensor& flat,
                           std::int64_t begin, const SquaresOf& squares_of = block_squares);

}  // namespace sluice
