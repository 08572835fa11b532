// Memory that a source of weights has yet to fill.
//
// Such memory begins with a value that no arithmetic produces: a signaling NaN of a fixed payload
// for floating-point types. A NaN in a checkpoint is quiet, so it is not mistaken for memory that
// nothing filled. Integers of 16 bits or more begin with their lowest value, and count as unfilled
// only if all elements still have it. 8-bit integers and bool begin with zero: every value of
// theirs is common, so they are never reported. Thread-safety: pure functions of their tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "sluice/parts/chunk.h"

namespace sluice {

// A new tensor that a source of weights has to fill. On the meta device it has no memory.
at::Tensor unfilled(at::IntArrayRef sizes, const at::TensorOptions& options);
// Writes the values of unfilled memory to the tensor.
void set_unfilled(const at::Tensor& tensor);
// Whether any element still holds what set_unfilled() wrote. False for a tensor without memory.
bool is_unfilled(const at::Tensor& tensor);

// The full names of the chunk's parameters that are unfilled.
std::vector<std::string> unfilled_parameters(const Chunk& chunk);
// Throws Error(kUsage) with the names, if there are any. where, remedy: for the message.
void require_none_unfilled(const std::vector<std::string>& names, const std::string& where,
                           const std::string& remedy);
// Writes zeros to the chunk's unfilled parameters, for runs that measure only time.
void zero_unfilled(Chunk& chunk);

}  // namespace sluice
