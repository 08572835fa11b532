#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// ((t0 + t1) + t2) + ... in new memory on `device`. Terms may be on other devices. Undefined terms
// are skipped.
at::Tensor sum_in_order(const std::vector<at::Tensor>& terms, at::Device device);
// Adds in a balanced binary tree, see plan/shard_tree.h.
at::Tensor sum_in_tree(const std::vector<at::Tensor>& terms, at::Device device);

}  // namespace sluice
