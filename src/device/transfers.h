// Values between the host and a device, with as few waits of the host as there can be.
//
// Owns: nothing. Does not own: hand-over between ranks and pinned copies that others wait for
// (ready.h).
//
// Invariants:
//  1. read_numbers() waits once where all are on one device, to_device() never.
//  2. For tensors of the CPU nothing is copied but the numbers.
// Thread-safety: pure functions; a device's current stream of this thread orders them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// The elements of the tensors one after another, in double.
std::vector<double> read_numbers(const std::vector<at::Tensor>& tensors);

// The tensor on `device`, through page-locked memory of its own: it may be written to afterwards.
at::Tensor to_device(const at::Tensor& tensor, at::Device device);

}  // namespace sluice
