// Sums tensors of several ranks in a fixed order.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// ((t0 + t1) + t2) + ... in new memory on `device`. Terms may be on other devices. Undefined terms
// are skipped; the result is undefined if all are.
at::Tensor sum_in_order(const std::vector<at::Tensor>& terms, at::Device device);
// Sums in a balanced binary tree (plan/shard_tree.h): the sum of [b, e) is the sum of [b, b + (e -
// b) / 2) plus the sum of the rest.
at::Tensor sum_in_tree(const std::vector<at::Tensor>& terms, at::Device device);

}  // namespace sluice
