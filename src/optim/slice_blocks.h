// The blocks of a parameter that is divided into slices. Owners' ranges end at block ends, and
// norms combine the blocks' sums of squares. Each slice has its own norm on any rank. No
// block spans two slices:
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

// [slice of the rank][block], blocks in memory order.
using SliceSquares = std::vector<std::vector<double>>;

// Returns ascending block ends in memory, the last is numel(). The parameter must be divided and
// contiguous.
std::vector<std::int64_t> block_ends(const ParameterInfo& parameter);

// Sums squares of elements [begin, begin + flat.numel()) of the parameter's gradient, which must
// start and end at block ends.
SliceSquares slice_squares(const ParameterInfo& parameter, const at::Tensor& flat,
                           std::int64_t begin, const SquaresOf& squares_of = block_squares);

}  // namespace sluice
