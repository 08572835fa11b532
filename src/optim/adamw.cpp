// AdamW. With gradient g, moments m and v, step t, rate lr, decay w:
//   p <- p (1 - lr w)
//   m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
//   p <- p - lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "ops/kernels/kernels.h"
#include "optim/gradient_norm.h"
#include "optim/optimizers.h"
#include "optim/state_memory.h"

namespace sluice {
namespace {

class AdamW : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, std::vector<OptimizedParameter> parameters)
      : options_(options),
        parameters_(std::move(parameters)),
        decays_(weight_decays(parameters_, options_)) {
    make_moments();
  }

  using Optimizer::step;
  void step(std::span<const std::size_t> members, double lr, double grad_scale) override {
    const at::NoGradGuard no_grad;
    std::vector<ops::AdamWCall> calls;
    std::vector<at::Tensor> read;  // must live until run()
    for (const ParameterGroup& group : group_parameters(parameters_, members, decays_)) {
      std::vector<at::Tensor> values, gradients, means, squares, steps;
      for (std::size_t i : group.members) {
        const at::Tensor gradient = gradient_like(parameters_[i].value);
        if (!gradient.defined()) continue;
        moments_[i].step += 1;
        if (!can_fuse(parameters_[i].value, gradient)) {
          step_by_operators(i, gradient, lr, grad_scale, group.weight_decay);
          continue;
        }
        if (has_kernel(parameters_[i].value)) {
          calls.push_back(call_of(i, gradient, lr, grad_scale, group.weight_decay));
          read.push_back(gradient);
          continue;
        }
        values.push_back(parameters_[i].value);
        gradients.push_back(gradient);
        means.push_back(moments_[i].mean);
        squares.push_back(moments_[i].square);
        steps.push_back(moments_[i].step);
      }
      if (values.empty()) continue;
      at::_fused_adamw_(values, gradients, means, squares, {}, steps, lr, options_.betas[0],
                        options_.betas[1], group.weight_decay, options_.eps, /*amsgrad=*/false,
                        /*maximize=*/false, grad_scale_tensor(grad_scale, values.front()));
    }
    run(calls);
  }

  std::vector<std::pair<std::string, at::Tensor>> state() const override {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      tensors.emplace_back("exp_avg/" + parameters_[i].name, moments_[i].mean);
      tensors.emplace_back("exp_avg_sq/" + parameters_[i].name, moments_[i].square);
      tensors.emplace_back("step/" + parameters_[i].name, moments_[i].step);
    }
    return tensors;
  }
  std::size_t num_parameters() const override { return parameters_.size(); }

 private:
  struct Moments {
    at::Tensor mean, square;
    at::Tensor step;  // float32 scalar for LibTorch's fused kernel
  };

  static bool has_kernel(const at::Tensor& value) {
    return value.is_cpu() && value.scalar_type() == at::kFloat;
  }

  ops::AdamWCall call_of(std::size_t i, const at::Tensor& gradient, double lr, double grad_scale,
                         double weight_decay) const {
    const Moments& moments = moments_[i];
    const double steps = moments.step.item<float>();
    parameters_[i].value.unsafeGetTensorImpl()->bump_version();  // as an in-place operator does
    return {.size = gradient.numel(),
            .value = parameters_[i].value.mutable_data_ptr<float>(),
            .mean = moments.mean.mutable_data_ptr<float>(),
            .square = moments.square.mutable_data_ptr<float>(),
            .gradient = gradient.const_data_ptr<float>(),
            .lr = lr,
            .beta1 = options_.betas[0],
            .beta2 = options_.betas[1],
            .eps = options_.eps,
            .weight_decay = weight_decay,
            .correction1 = 1.0 - std::pow(options_.betas[0], steps),
            .correction2 = 1.0 - std::pow(options_.betas[1], steps),
            .gradient_divisor = grad_scale};
  }

  // Threads divide the blocks of all parameters. The kernel works element by element, so block ends
  // affect no bit.
  static void run(const std::vector<ops::AdamWCall>& calls) {
    const auto adamw = ops::kernels().adamw;
    if (at::get_num_threads() == 1) {
      for (const ops::AdamWCall& call : calls) adamw(call);
      return;
    }
    std::vector<ops::AdamWCall> blocks;
    for (const ops::AdamWCall& call : calls) {
      for (std::int64_t begin = 0; begin < call.size; begin += kGradientBlock) {
        ops::AdamWCall& block = blocks.emplace_back(call);
        block.size = std::min(kGradientBlock, call.size - begin);
        block.value += begin;
        block.mean += begin;
        block.square += begin;
        block.gradient += begin;
      }
    }
    at::parallel_for(0, static_cast<std::int64_t>(blocks.size()), 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i) adamw(blocks[i]);
                     });
  }

  void make_moments() {
    moments_.resize(parameters_.size());
    std::map<at::ScalarType, std::vector<std::size_t>> in_one_buffer;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& value = parameters_[i].value;
      const at::TensorOptions type = value.options().dtype(state_type(value)).requires_grad(false);
      moments_[i].step = at::zeros({}, type.dtype(at::kFloat));
      if (value.is_cpu() && value.is_non_overlapping_and_dense()) {
        in_one_buffer[state_type(value)].push_back(i);
        continue;
      }
      const auto zeros = [&] {
        return at::empty_strided(value.sizes(), value.strides(), type).zero_();
      };
      moments_[i].mean = zeros();
      moments_[i].square = zeros();
    }
    for (const auto& [type, members] : in_one_buffer) {
      std::vector<at::Tensor> values;
      for (const std::size_t i : members) values.push_back(parameters_[i].value);
      const std::vector<at::Tensor> means = zeros_in_one_buffer(values, type);
      const std::vector<at::Tensor> squares = zeros_in_one_buffer(values, type);
      for (std::size_t k = 0; k < members.size(); ++k) {
        moments_[members[k]].mean = means[k];
        moments_[members[k]].square = squares[k];
      }
    }
  }

  void step_by_operators(std::size_t i, const at::Tensor& gradient, double lr, double grad_scale,
                         double weight_decay) {
    const double beta1 = options_.betas[0], beta2 = options_.betas[1];
    Moments& moments = moments_[i];
    const double steps = moments.step.item<float>();
    update_by_blocks(
        {parameters_[i].value, gradient, moments.mean, moments.square},
        [&](std::vector<at::Tensor>& parts) {
          at::Tensor &parameter = parts[0], &mean = parts[2], &square = parts[3];
          at::Tensor g = parts[1].to(mean.scalar_type());
          if (grad_scale != 1.0) g = g / grad_scale;
          mean.lerp_(g, 1.0 - beta1);
          square.mul_(beta2).addcmul_(g, g, 1.0 - beta2);
          const at::Tensor denominator =
              (square.sqrt() / std::sqrt(1.0 - std::pow(beta2, steps))).add_(options_.eps);
          at::Tensor value = parameter.to(mean.scalar_type()) * (1.0 - lr * weight_decay);
          value.addcdiv_(mean, denominator, -lr / (1.0 - std::pow(beta1, steps)));
          parameter.copy_(value);
        });
  }

  OptimizerOptions options_;
  std::vector<OptimizedParameter> parameters_;
  std::vector<double> decays_;
  std::vector<Moments> moments_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options,
                                      std::vector<OptimizedParameter> parameters) {
  return std::make_unique<AdamW>(options, std::move(parameters));
}

}  // namespace sluice
