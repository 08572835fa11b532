// The one way to add tensors of several givers.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// ((t0 + t1) + t2) + ... on `device`, in new memory: terms may be other ranks', and on their
// devices. Undefined terms are left out; undefined when all are. Shapes and dtypes are the same.
at::Tensor sum_in_order(const std::vector<at::Tensor>& terms, at::Device device);
// The same in a balanced binary tree (plan/shard_tree.h): the sum of [b, e) is that of its first
// half, [b, b + (e - b) / 2), plus that of the rest.
at::Tensor sum_in_tree(const std::vector<at::Tensor>& terms, at::Device device);

}  // namespace sluice
