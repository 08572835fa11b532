#include "comm/sum_in_order.h"

#include <ATen/ATen.h>

#include <span>

namespace sluice {
namespace {

at::Tensor sum_of_subtree(std::span<const at::Tensor> terms, at::Device device) {
  if (terms.size() == 1) {
    const at::Tensor& term = terms.front();
    if (!term.defined()) return {};
    return term.detach().to(device, term.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  }
  const auto is_here = [&](const at::Tensor& term) {
    return term.defined() && term.device() == device;
  };
  if (terms.size() == 2 && is_here(terms[0]) && is_here(terms[1]))
    return at::add(terms[0].detach(), terms[1].detach());
  const std::size_t half = terms.size() / 2;
  at::Tensor left = sum_of_subtree(terms.first(half), device);
  const std::span<const at::Tensor> rest = terms.subspan(half);
  const at::Tensor right =
      rest.size() > 1 ? sum_of_subtree(rest, device)
                      : (rest.front().defined() ? rest.front().detach().to(device) : at::Tensor());
  if (!right.defined()) return left;
  if (!left.defined()) return rest.size() > 1 ? right : right.clone();
  return left.add_(right);
}

}  // namespace

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

at::Tensor sum_in_tree(const std::vector<at::Tensor>& terms, at::Device device) {
  const at::NoGradGuard no_grad;
  return terms.empty() ? at::Tensor() : sum_of_subtree(terms, device);
}

}  // namespace sluice
