#include "sluice/parts/gradient_sum.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "sluice/error.h"

namespace sluice {
namespace {

// Nobody else can see the memory: one reference to the tensor is the caller's, one to the storage
// the tensor's, and a view's base is held by the view alone.
bool is_alone(const at::Tensor& gradient) {
  if (gradient.use_count() != 1) return false;
  if (!gradient.is_view()) return gradient.storage().use_count() == 1;
  return gradient._base().use_count() == 1 && gradient.storage().use_count() == 2;
}

bool can_take_over(const at::Tensor& gradient, at::ScalarType dtype) {
  return gradient.scalar_type() == dtype && gradient.is_contiguous() && is_alone(gradient) &&
         gradient.storage().nbytes() ==
             static_cast<std::size_t>(gradient.numel()) * gradient.element_size();
}

}  // namespace

GradientSum::GradientSum(const at::Tensor& parameter, std::string name)
    : name_(std::move(name)),
      parameter_(parameter),
      dtype_(parameter.scalar_type() == at::kBFloat16 || parameter.scalar_type() == at::kHalf
                 ? at::kFloat
                 : parameter.scalar_type()) {}

void GradientSum::reserve() {
  if (sum_.defined() || memory_.defined()) return;
  memory_ = at::empty(parameter_.sizes(), parameter_.options().dtype(dtype_).requires_grad(false));
}

void GradientSum::add(const at::Tensor& gradient) {
  if (!gradient.defined()) return;
  if (gradient.layout() != at::kStrided) {
    throw Error(ErrorKind::kUsage, {.what = "the gradient of '" + name_ + "' is sparse",
                                    .remedy = "use dense gradients (sparse = false)"});
  }
  at::NoGradGuard no_grad;
  if (sum_.defined()) {
    sum_.add_(gradient);
  } else if (memory_.defined() && memory_.sizes() == gradient.sizes() && is_alone(memory_)) {
    sum_ = std::move(memory_);
    sum_.copy_(gradient);
  } else if (can_take_over(gradient, dtype_)) {
    sum_ = gradient.tensor_data();
  } else {
    sum_ = at::empty(gradient.sizes(), gradient.options().dtype(dtype_).requires_grad(false));
    sum_.copy_(gradient);
  }
}

void GradientSum::clear() {
  if (sum_.defined()) memory_ = std::move(sum_);
  sum_.reset();
}

}  // namespace sluice
