#include "device/transfers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>

#include <cstddef>

namespace sluice {

std::vector<double> read_numbers(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<double> numbers;
  std::size_t first = 0;
  while (first < tensors.size()) {
    std::vector<at::Tensor> flat;
    std::size_t end = first;
    for (; end < tensors.size() && tensors[end].device() == tensors[first].device(); ++end)
      flat.push_back(tensors[end].detach().to(at::kDouble).flatten());
    const at::Tensor read = (flat.size() == 1 ? flat.front() : at::cat(flat)).cpu().contiguous();
    const double* const begin = read.const_data_ptr<double>();
    numbers.insert(numbers.end(), begin, begin + read.numel());
    first = end;
  }
  return numbers;
}

at::Tensor to_device(const at::Tensor& tensor, at::Device device) {
  if (!tensor.is_cpu() || device.is_cpu()) return tensor.to(device, /*non_blocking=*/true);
  const at::NoGradGuard no_grad;
  const at::Tensor locked =
      at::empty_like(tensor, tensor.options().pinned_memory(true).requires_grad(false));
  locked.copy_(tensor.detach());
  return locked.to(device, /*non_blocking=*/true).set_requires_grad(tensor.requires_grad());
}

}  // namespace sluice
