#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// ((t0 + t1) + t2) + ... in new memory on `device`. Terms may be on other devices. Undefined terms
// are skipped.
at::Tensor sum_in_order(const std::vector<at::Tensor>& terms, at::Device device);
// In a balanced binary tree (plan/shard_tree.h): the sum of [b, e) is that of [b, b + (e - b) / 2)
// plus that of the rest.
at::Tensor sum_in_tree(const std::vector<at::Tensor>& terms, at::Device device);

}  // namespace sluice
