// SGD with rate lr, gradient g, decay w and momentum m, as torch.optim.SGD without dampening:
//   b <- m b + g + w p      (b is 0 at first; without momentum there is no b)
//   p <- p - lr b
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "optim/optimizers.h"

namespace sluice {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, std::vector<OptimizedParameter> parameters)
      : parameters_(std::move(parameters)),
        decays_(weight_decays(parameters_, options)),
        momentum_(options.momentum) {
    if (momentum_ == 0.0) return;
    for (const OptimizedParameter& parameter : parameters_) {
      const at::Tensor& value = parameter.value;
      const at::TensorOptions type = value.options().dtype(state_type(value)).requires_grad(false);
      buffers_.push_back(at::empty_strided(value.sizes(), value.strides(), type).zero_());
    }
  }

  using Optimizer::step;
  void step(std::span<const std::size_t> members, double lr, double grad_scale) override {
    const at::NoGradGuard no_grad;
    for (const ParameterGroup& group : group_parameters(parameters_, members, decays_)) {
      std::vector<at::Tensor> values, gradients, buffers;
      for (std::size_t i : group.members) {
        const at::Tensor gradient = gradient_like(parameters_[i].value);
        if (!gradient.defined()) continue;
        if (!can_fuse(parameters_[i].value, gradient)) {
          step_by_operators(i, gradient, lr, grad_scale, group.weight_decay);
          continue;
        }
        values.push_back(parameters_[i].value);
        gradients.push_back(gradient);
        if (!buffers_.empty()) buffers.push_back(buffers_[i]);
      }
      if (values.empty()) continue;
      at::_fused_sgd_(values, gradients, buffers, group.weight_decay, momentum_, lr,
                      /*dampening=*/0.0, /*nesterov=*/false, /*maximize=*/false,
                      /*is_first_step=*/buffers.empty(),
                      grad_scale_tensor(grad_scale, values.front()));
    }
  }

  std::vector<std::pair<std::string, at::Tensor>> state() const override {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      tensors.emplace_back("momentum_buffer/" + parameters_[i].name, buffers_[i]);
    return tensors;
  }
  std::size_t num_parameters() const override { return parameters_.size(); }

 private:
  void step_by_operators(std::size_t i, const at::Tensor& gradient, double lr, double grad_scale,
                         double weight_decay) const {
    const at::Tensor& parameter = parameters_[i].value;
    const at::ScalarType type = state_type(parameter);
    std::vector<at::Tensor> tensors = {parameter, gradient};
    if (!buffers_.empty()) tensors.push_back(buffers_[i]);
    update_by_blocks(tensors, [&](std::vector<at::Tensor>& parts) {
      at::Tensor value = parts[0].to(type, /*non_blocking=*/false, /*copy=*/true);
      at::Tensor g = parts[1].to(type);
      if (grad_scale != 1.0) g = g / grad_scale;
      if (weight_decay != 0.0) g = g + weight_decay * value;
      if (parts.size() > 2) g = parts[2].mul_(momentum_).add_(g);
      parts[0].copy_(value.sub_(g, lr));
    });
  }

  std::vector<OptimizedParameter> parameters_;
  std::vector<double> decays_;
  double momentum_;
  std::vector<at::Tensor> buffers_;  // empty without momentum
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options,
                                    std::vector<OptimizedParameter> parameters) {
  return std::make_unique<Sgd>(options, std::move(parameters));
}

}  // namespace sluice
