// Marks memory that weights must fill, and finds weights that were never set.
//
// Unfilled floating-point elements are signaling NaNs with a fixed payload. Arithmetic never
// produces one, and NaNs in checkpoints are quiet. Unfilled bools are a byte other than 0 and 1.
// Integers and 8-bit floats get the bits of the lowest integer, and count as unfilled only if all
// elements match.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "sluice/parts/chunk.h"

namespace sluice {

at::Tensor unfilled(at::IntArrayRef sizes, const at::TensorOptions& options);
void set_unfilled(const at::Tensor& tensor);
// Whether any element is still unfilled. False for a tensor without memory.
bool is_unfilled(const at::Tensor& tensor);

// Lists the chunk's unfilled parameters, as in "'model.norm.weight', float32 [64]".
std::vector<std::string> unfilled_parameters(const Chunk& chunk);
// Throws Error(kUsage) if there are names.
void require_none_unfilled(const std::vector<std::string>& names, const std::string& where,
                           const std::string& remedy);
// Sets unfilled parameters to zero, for runs that only measure time.
void zero_unfilled(Chunk& chunk);

}  // namespace sluice
