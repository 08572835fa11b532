// Memory for optimizer state: tensors side by side in one buffer on 2 MiB pages. An update reads
// all state once, in order, so memory bandwidth decides its speed. With 4 KiB pages a part of the
// time is lost on page lookups. The system may ignore the request for large pages.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// Returns zeros with the sizes and strides of `like`, which must be dense and on the CPU. They are
// tensors of their own, not views, and each starts at a cache line of the buffer.
std::vector<at::Tensor> zeros_in_one_buffer(const std::vector<at::Tensor>& like,
                                            at::ScalarType dtype);

}  // namespace sluice
