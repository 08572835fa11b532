#include "train/grads.h"

#include <ATen/core/grad_mode.h>

namespace sluice {

void Grads::add_step() {
  const at::NoGradGuard no_grad;
  for (const SharedParameter& parameter : parameters_) {
    const ParameterUse* use = parameter.local_use();
    if (use && use->gradient().defined()) add(use->value(), use->gradient());
  }
}

void Grads::scale(double factor) {
  const at::NoGradGuard no_grad;
  for (const SharedParameter& parameter : parameters_) {
    const ParameterUse* use = parameter.local_use();
    if (!use || !use->value().grad().defined()) continue;
    if (sums_.count(use->value().unsafeGetTensorImpl()) > 0) {
      Sum& sum = sum_of(use->value());
      sum.value.mul_(factor);
      show(sum, use->value());
    } else {
      use->value().mutable_grad().mul_(factor);
    }
  }
}

void Grads::add(const at::Tensor& parameter, const at::Tensor& gradient) {
  at::Tensor& grad = parameter.mutable_grad();
  if (gradient.scalar_type() == parameter.scalar_type()) {
    if (grad.defined()) {
      grad.add_(gradient);
    } else {
      grad = gradient;
    }
    return;
  }
  if (grad.defined()) {
    Sum& sum = sum_of(parameter);
    sum.value.add_(gradient);
    show(sum, parameter);
  } else {
    Sum& sum = sums_[parameter.unsafeGetTensorImpl()] = {gradient, {}, 0};
    show(sum, parameter);
  }
}

Grads::Sum& Grads::sum_of(const at::Tensor& parameter) {
  const at::Tensor& grad = parameter.grad();
  Sum& sum = sums_[parameter.unsafeGetTensorImpl()];
  const bool goes_on = sum.grad.is_same(grad) && sum.version == grad._version();
  if (!goes_on) sum.value = grad.to(at::kFloat);
  return sum;
}

void Grads::show(Sum& sum, const at::Tensor& parameter) {
  at::Tensor& grad = parameter.mutable_grad();
  if (grad.defined()) {
    grad.copy_(sum.value);
  } else {
    grad = sum.value.to(parameter.scalar_type());
  }
  sum.grad = grad;
  sum.version = grad._version();
}

}  // namespace sluice
