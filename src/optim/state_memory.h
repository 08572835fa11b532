// Memory for the optimizer's state: tensors side by side in one buffer, on 2 MiB pages.
//
// An update walks all of the state once, in order, so what it costs is the memory's: with pages of
// 4 KiB a part of that is finding the pages.
//
// Owns: the places of tensors in the buffer; the advice to the system, which may ignore it.
// Does not own: the tensors, which keep the buffer alive.
// Thread-safety: pure functions.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// Zeros with the sizes and strides of these, which are dense and on the CPU: each its own tensor
// (no view), all in one buffer, each starting at a cache line of it.
std::vector<at::Tensor> zeros_in_one_buffer(const std::vector<at::Tensor>& like,
                                            at::ScalarType dtype);

}  // namespace sluice
