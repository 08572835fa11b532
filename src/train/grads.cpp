#include "train/grads.h"

#include <ATen/core/grad_mode.h>

#include <string>
#include <utility>

#include "base/log.h"
#include "sluice/error.h"

namespace sluice {

void Grads::add_step() {
  const at::NoGradGuard no_grad;
  has_step_ = true;
  for (const OwnBlocks& own : parameters_.all()) {
    at::Tensor& whole = own.use->gradient();
    if (!own.range || !whole.defined()) continue;
    if (!parameters_.are_blocks()) {
      add(own.value, whole);
      continue;
    }
    const at::Tensor part = own.part_of(whole);
    // `.grad` must not be a view, because optimizers detach it in place.
    add(own.value, part.numel() < whole.numel() ? part.clone() : part.variable_data());
    whole.reset();
  }
}

void Grads::scale(double factor) {
  const at::NoGradGuard no_grad;
  for (const OwnBlocks& own : parameters_.all()) {
    if (!grad_of(own.value).defined()) continue;
    if (sums_.count(own.value.unsafeGetTensorImpl()) > 0) {
      Sum& sum = sum_of(own.value);
      sum.value.mul_(factor);
      show(sum, own.value);
    } else {
      grad_of(own.value).mul_(factor);
    }
  }
}

void Grads::clear() {
  for (const OwnBlocks& own : parameters_.all()) grad_of(own.value).reset();
}

at::Tensor Grads::of(const ParameterUse& use) {
  for (const OwnBlocks& own : parameters_.all())
    if (own.use == &use) return grad_of(own.value);
  return {};
}

void Grads::give_out() {
  parameters_requested_ = true;
  if (!std::exchange(are_held_, false)) return;
  for (const OwnBlocks& own : parameters_.all()) {
    const auto held = held_.find(own.value.unsafeGetTensorImpl());
    if (held != held_.end()) own.value.mutable_grad() = std::move(held->second);
  }
  held_.clear();
}

void Grads::require_parameters_requested(int rank) {
  if (parameters_requested_ || !has_step_) return;
  if (parameters_.all().empty()) return;
  const std::string& first = parameters_.all().front().parameter->name;
  if (!are_held_) {
    if (std::exchange(has_warned_, true)) return;
    log_warning("a second step begins, but no call has returned the parameters, such as '" + first +
                "': an optimizer of another module's parameters trains nothing; make it of "
                "pipeline.parameters()");
    return;
  }
  throw Error(
      ErrorKind::kUsage,
      {.what = "a second step begins, but no call has returned the parameters, such as '" + first +
               "', so no optimizer holds them alone",
       .where = "Pipeline::train_step on rank " + std::to_string(rank),
       .remedy = "make the rank's optimizer in the body, of pipeline.parameters(): parameters of "
                 "the original module belong to all ranks, those of another module to none"});
}

at::Tensor& Grads::grad_of(const at::Tensor& parameter) {
  at::Tensor& grad = parameter.mutable_grad();
  if (!are_held_) return grad;
  // Keeps a gradient that was set before the pipeline was made.
  return held_.try_emplace(parameter.unsafeGetTensorImpl(), std::move(grad)).first->second;
}

void Grads::add(const at::Tensor& parameter, const at::Tensor& gradient) {
  at::Tensor& grad = grad_of(parameter);
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
  const at::Tensor& grad = grad_of(parameter);
  Sum& sum = sums_[parameter.unsafeGetTensorImpl()];
  const bool goes_on = sum.grad.is_same(grad) && sum.version == grad._version();
  if (!goes_on) sum.value = grad.to(at::kFloat);
  return sum;
}

void Grads::show(Sum& sum, const at::Tensor& parameter) {
  at::Tensor& grad = grad_of(parameter);
  if (grad.defined()) {
    grad.copy_(sum.value);
  } else {
    grad = sum.value.to(parameter.scalar_type());
  }
  sum.grad = grad;
  sum.version = grad._version();
}

}  // namespace sluice
