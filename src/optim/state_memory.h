// Memory for optimizer state in one buffer on 2 MiB pages. An update is limited by memory
// bandwidth, and lookups of 4 KiB pages would slow it. The system may ignore the request for large
// pages.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// Returns zeros with the sizes and strides of `like`, which must be dense CPU tensors. They are not
// views, and each starts at a cache line.
std::vector<at::Tensor> zeros_in_one_buffer(const std::vector<at::Tensor>& like,
                                            at::ScalarType dtype);

}  // namespace sluice
