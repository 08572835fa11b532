#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// Returns all tensors' elements as double, in order. Blocks once if all tensors are on one device.
std::vector<double> read_numbers(const std::vector<at::Tensor>& tensors);

// Copies through page-locked memory without blocking. The caller may write to the tensor
// afterwards. A CPU tensor for the CPU is not copied.
at::Tensor to_device(const at::Tensor& tensor, at::Device device);

}  // namespace sluice
