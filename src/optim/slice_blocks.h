// The blocks of a parameter that is divided into slices: where the ranges of its owners may end,
// and the sums of squares of which the norms of its slices are made.
//
// The norm of each slice is by itself, as that of a parameter of its own: so it does not depend on
// which ranks have which slices. Its blocks are of the slice alone, too:
//
//   divided along dimension 0         every slice of every section is a run of memory, and a block
//                                     kGradientBlock elements of it
//   divided along another dimension   a block is some rows (all dimensions in front of it), as many
//                                     whatever the rank has, of each slice
//
// Does not own: tensors. Thread-safety: values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "optim/gradient_norm.h"
#include "sluice/layer.h"

namespace sluice {

// [slice of the rank][block]. Blocks of one slice follow each other in the order of memory.
using SliceSquares = std::vector<std::vector<double>>;

// The ends of its blocks in memory, ascending, the last is numel(); of one that has no elements 0.
// Precondition: the parameter is divided, its tensor contiguous.
std::vector<std::int64_t> block_ends(const ParameterInfo& parameter);

// The sums of squares of elements [begin, begin + flat.numel()) of a gradient of the parameter,
// both at ends of blocks, as `squares_of` has them of a part. Precondition: as block_ends(), but
// for how the tensor lies in memory.
SliceSquares slice_squares(const ParameterInfo& parameter, const at::Tensor& flat,
                           std::int64_t begin, const SquaresOf& squares_of = block_squares);

}  // namespace sluice
