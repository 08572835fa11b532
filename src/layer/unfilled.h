// Marks memory of weights that are not set yet, and finds weights that were never set.
//
// Unfilled floating-point elements are signaling NaNs with a fixed payload. Arithmetic never
// produces such a NaN, and NaNs in checkpoints are quiet. Unfilled bools are a byte other than 0
// and 1. Integers and 8-bit floats get the bits of the lowest integer. Such a tensor counts as
// unfilled only if all its elements match.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "sluice/parts/chunk.h"

namespace sluice {

at::Tensor unfilled(at::IntArrayRef sizes, const at::TensorOptions& options);
void set_unfilled(const at::Tensor& tensor);
// Whether any element of the tensor is still unfilled. False for a tensor without memory.
bool is_unfilled(const at::Tensor& tensor);

// Lists the chunk's unfilled parameters, as in "'model.norm.weight', float32 [64]".
std::vector<std::string> unfilled_parameters(const Chunk& chunk);
// Throws Error(kUsage) if `names` is not empty. where, remedy: texts of the error message.
void require_none_unfilled(const std::vector<std::string>& names, const std::string& where,
                           const std::string& remedy);
// Sets unfilled parameters to zero, for runs that only measure time.
void zero_unfilled(Chunk& chunk);

}  // namespace sluice
