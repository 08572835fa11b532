// Copies between host and device that rarely block.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// Returns all elements of all tensors as double, in order. Blocks only once if all tensors are on
// one device.
std::vector<double> read_numbers(const std::vector<at::Tensor>& tensors);

// Copies a tensor to `device` through page-locked memory without blocking. The caller may write to
// the original afterwards. A CPU tensor is not copied if `device` is the CPU.
at::Tensor to_device(const at::Tensor& tensor, at::Device device);

}  // namespace sluice
