// SGD without momentum, with rate lr, gradient g and decay w: p <- p - lr (g + w p).
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "optim/optimizers.h"

namespace sluice {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, std::vector<OptimizedParameter> parameters)
      : parameters_(std::move(parameters)), decays_(weight_decays(parameters_, options)) {}

  using Optimizer::step;
  void step(std::span<const std::size_t> members, double lr, double grad_scale) override {
    const at::NoGradGuard no_grad;
    for (const ParameterGroup& group : group_parameters(parameters_, members, decays_)) {
      std::vector<at::Tensor> values, gradients;
      for (std::size_t i : group.members) {
        const at::Tensor gradient = gradient_like(parameters_[i].value);
        if (!gradient.defined()) continue;
        if (!can_fuse(parameters_[i].value, gradient)) {
          step_by_operators(parameters_[i].value, gradient, lr, grad_scale, group.weight_decay);
          continue;
        }
        values.push_back(parameters_[i].value);
        gradients.push_back(gradient);
      }
      if (values.empty()) continue;
      at::_fused_sgd_(values, gradients, /*momentum_buffer_list=*/{}, group.weight_decay,
                      /*momentum=*/0.0, lr, /*dampening=*/0.0, /*nesterov=*/false,
                      /*maximize=*/false, /*is_first_step=*/true,
                      grad_scale_tensor(grad_scale, values.front()));
    }
  }

  std::vector<std::pair<std::string, at::Tensor>> state() const override { return {}; }
  std::size_t num_parameters() const override { return parameters_.size(); }

 private:
  static void step_by_operators(const at::Tensor& parameter, const at::Tensor& gradient, double lr,
                                double grad_scale, double weight_decay) {
    const at::ScalarType type = state_type(parameter);
    update_by_blocks({parameter, gradient}, [&](std::vector<at::Tensor>& parts) {
      at::Tensor value = parts[0].to(type, /*non_blocking=*/false, /*copy=*/true);
      at::Tensor g = parts[1].to(type);
      if (grad_scale != 1.0) g = g / grad_scale;
      if (weight_decay != 0.0) g = g + weight_decay * value;
      parts[0].copy_(value.sub_(g, lr));
    });
  }

  std::vector<OptimizedParameter> parameters_;
  std::vector<double> decays_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options,
                                    std::vector<OptimizedParameter> parameters) {
  return std::make_unique<Sgd>(options, std::move(parameters));
}

}  // namespace sluice
