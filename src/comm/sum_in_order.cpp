#include "comm/sum_in_order.h"

#include <ATen/ATen.h>

namespace sluice {

at::Tensor sum_in_order(const std::vector<at::Tensor>& terms, at::Device device) {
  const at::NoGradGuard no_grad;
  at::Tensor sum;
  for (const at::Tensor& term : terms) {
    if (!term.defined()) continue;
    if (sum.defined()) {
      sum.add_(term.to(device));
    } else {
      sum = term.detach().to(device, term.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    }
  }
  return sum;
}

}  // namespace sluice
