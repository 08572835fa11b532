#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/kernels/kernels.h"
#include "ops/named.h"
#include "sluice/parts/ops.h"

namespace sluice {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor by_operators(const at::Tensor& x, const at::Tensor& weight, double eps, double offset) {
  const at::Tensor normed = x * at::rsqrt(x.square().mean(-1, true) + eps);
  return normed * (offset == 0 ? weight : weight + offset);
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in,
                            const at::Tensor& weight_in, double eps, double offset) {
    const at::Tensor x = x_in.contiguous(), weight = weight_in.contiguous();
    const std::int64_t width = x.size(-1), rows = x.numel() / width;
    const at::Tensor y = at::empty_like(x), inverse = at::empty({rows}, x.options());
    ops::kernels().rms_norm(rows, width, x.const_data_ptr<float>(), width,
                            weight.const_data_ptr<float>(), static_cast<float>(offset),
                            static_cast<float>(eps), y.mutable_data_ptr<float>(), width,
                            inverse.mutable_data_ptr<float>());
    context->save_for_backward({x_in, weight_in, inverse});
    context->saved_data["eps"] = eps;
    context->saved_data["offset"] = offset;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const double eps = context->saved_data["eps"].toDouble(),
                 offset = context->saved_data["offset"].toDouble();
    if (at::GradMode::is_enabled()) {
      const auto found = ops::differentiable_gradients(
          {saved[0], saved[1]}, gradients[0], [&](const variable_list& inputs) {
            return by_operators(inputs[0], inputs[1], eps, offset);
          });
      return {found[0], found[1], {}, {}};
    }
    const at::Tensor x = saved[0].contiguous(), weight = saved[1].contiguous(),
                     dy = gradients[0].contiguous();
    const at::Tensor dx = at::empty_like(x);
    const at::Tensor d_weight =
        context->needs_input_grad(1) ? at::zeros_like(weight) : at::Tensor();
    const std::int64_t width = x.size(-1), rows = x.numel() / width;
    ops::kernels().rms_norm_gradient(
        rows, width, dy.const_data_ptr<float>(), width, x.const_data_ptr<float>(), width,
        saved[2].const_data_ptr<float>(), weight.const_data_ptr<float>(),
        static_cast<float>(offset), nullptr, dx.mutable_data_ptr<float>(), width,
        d_weight.defined() ? d_weight.mutable_data_ptr<float>() : nullptr);
    return {dx, d_weight, {}, {}};
  }
};

}  // namespace

at::Tensor fused_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                          double offset) {
  if (x.dim() < 1 || weight.dim() != 1 || weight.size(0) != x.size(-1)) {
    ops::refuse("fused_rms_norm",
                "a weight of " + c10::str(weight.sizes()) + " does not fit " + c10::str(x.sizes()),
                "give x [.., D] and weight [D]");
  }
  if (!ops::kernels_take({x, weight})) return by_operators(x, weight, eps, offset);
  return RmsNorm::apply(x, weight, eps, offset);
}

}  // namespace sluice
