// Marks memory that weights have yet to fill, and finds what nothing filled.
//
// Floating-point memory begins with a signaling NaN of a fixed payload, which no arithmetic
// produces. A NaN of a checkpoint is quiet, so it is not reported. A bool begins as a byte that is
// neither 0 nor 1. Integers, and floating-point numbers of 8 bits, begin with the bits of the
// lowest integer, and count as unfilled only if all elements still have them.
// Thread-safety: pure functions of their tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "sluice/parts/chunk.h"

namespace sluice {

// A new tensor that weights have to fill. On the meta device it has no memory.
at::Tensor unfilled(at::IntArrayRef sizes, const at::TensorOptions& options);
// Writes the values of unfilled memory to the tensor.
void set_unfilled(const at::Tensor& tensor);
// Whether any element still holds what set_unfilled() wrote. False for a tensor without memory.
bool is_unfilled(const at::Tensor& tensor);

// The chunk's parameters that are unfilled: "'model.norm.weight', float32 [64]".
std::vector<std::string> unfilled_parameters(const Chunk& chunk);
// Throws Error(kUsage) with the names, if there are any. where, remedy: for the message.
void require_none_unfilled(const std::vector<std::string>& names, const std::string& where,
                           const std::string& remedy);
// Writes zeros to the chunk's unfilled parameters, for runs that measure only time.
void zero_unfilled(Chunk& chunk);

}  // namespace sluice
