#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// Returns ((t0 + t1) + t2) + ... in new memory on `device`. Terms may be on other devices. Skips
// undefined terms.
at::Tensor sum_in_order(const std::vector<at::Tensor>& terms, at::Device device);
// Adds in a balanced binary tree (plan/shard_tree.h).
at::Tensor sum_in_tree(const std::vector<at::Tensor>& terms, at::Device device);

}  // namespace sluice
