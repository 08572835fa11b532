// Allocates optimizer state in one buffer on 2 MiB pages, if the system has them. Memory bandwidth
// limits updates, and address lookups for 4 KiB pages would slow them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// Returns zeros with the sizes and strides of `like`, which must be dense CPU tensors. Each starts
// at a cache line and is not an autograd view.
std::vector<at::Tensor> zeros_in_one_buffer(const std::vector<at::Tensor>& like,
                                            at::ScalarType dtype);

}  // namespace sluice
