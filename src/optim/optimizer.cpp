#include "optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/name_pattern.h"
#include "optim/gradient_norm.h"
#include "optim/optimizers.h"
#include "sluice/error.h"

namespace sluice {

void Optimizer::step(double lr, double grad_scale) {
  std::vector<std::size_t> all(num_parameters());
  std::iota(all.begin(), all.end(), std::size_t{0});
  step(all, lr, grad_scale);
}

std::int64_t Optimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : state()) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<OptimizedParameter> parameters) {
  switch (options.kind) {
    case OptimizerKind::kAdamW:
      return make_adamw(options, std::move(parameters));
    case OptimizerKind::kSgd:
    case OptimizerKind::kSgdMomentum:
      return make_sgd(options, std::move(parameters));
  }
  throw Error(ErrorKind::kInternal, {.what = "the kind of the optimizer is unknown"});
}

std::vector<double> weight_decays(const std::vector<OptimizedParameter>& parameters,
                                  const OptimizerOptions& options) {
  std::vector<double> decays;
  for (const OptimizedParameter& parameter : parameters) {
    const bool decays_not = matches_any(options.no_decay, parameter.name);
    decays.push_back(decays_not ? 0.0 : options.weight_decay);
  }
  return decays;
}

std::vector<ParameterGroup> group_parameters(const std::vector<OptimizedParameter>& parameters,
                                             std::span<const std::size_t> members,
                                             const std::vector<double>& weight_decays) {
  std::vector<ParameterGroup> groups;
  for (const std::size_t i : members) {
    const at::Tensor& value = parameters[i].value;
    const double weight_decay = weight_decays[i];
    auto fits = [&](const ParameterGroup& group) {
      const at::Tensor& first = parameters[group.members.front()].value;
      return group.weight_decay == weight_decay && first.device() == value.device() &&
             first.scalar_type() == value.scalar_type();
    };
    auto group = groups.begin();
    while (group != groups.end() && !fits(*group)) ++group;
    if (group == groups.end()) group = groups.insert(groups.end(), {weight_decay, {}});
    group->members.push_back(i);
  }
  return groups;
}

at::Tensor gradient_like(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined() || gradient.strides() == parameter.strides()) return gradient;
  return at::empty_strided(parameter.sizes(), parameter.strides(), gradient.options())
      .copy_(gradient);
}

bool can_fuse(const at::Tensor& parameter, const at::Tensor& gradient) {
  const at::ScalarType type = parameter.scalar_type();
  return (parameter.is_cpu() || parameter.is_cuda()) &&
         (type == at::kFloat || type == at::kDouble) && gradient.scalar_type() == type &&
         parameter.is_non_overlapping_and_dense();
}

void update_by_blocks(const std::vector<at::Tensor>& tensors,
                      const std::function<void(std::vector<at::Tensor>& parts)>& update) {
  const at::Tensor& first = tensors.front();
  const std::int64_t numel = first.numel();
  if (!first.is_cpu() || !first.is_non_overlapping_and_dense()) {
    std::vector<at::Tensor> whole = tensors;
    update(whole);
    return;
  }
  at::parallel_for(0, (numel + kGradientBlock - 1) / kGradientBlock, 1,
                   [&](std::int64_t first_block, std::int64_t last_block) {
                     const at::NoGradGuard no_grad;  // each thread needs its own guard
                     for (std::int64_t block = first_block; block < last_block; ++block) {
                       const std::int64_t begin = block * kGradientBlock;
                       const std::int64_t size = std::min(kGradientBlock, numel - begin);
                       std::vector<at::Tensor> parts;
                       for (const at::Tensor& tensor : tensors)
                         parts.push_back(tensor.detach().as_strided(
                             {size}, {1}, tensor.storage_offset() + begin));
                       update(parts);
                     }
                   });
}

std::vector<StateKind> state_kinds(OptimizerKind kind, const at::Tensor& parameter) {
  if (kind == OptimizerKind::kSgd) return {};
  const at::ScalarType type = state_type(parameter);
  if (kind == OptimizerKind::kSgdMomentum) return {{"momentum_buffer", true, type}};
  return {{"exp_avg", true, type}, {"exp_avg_sq", true, type}, {"step", false, at::kFloat}};
}

at::ScalarType state_type(const at::Tensor& parameter) {
  return parameter.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::optional<at::Tensor> grad_scale_tensor(double grad_scale, const at::Tensor& like) {
  if (grad_scale == 1.0) return std::nullopt;
  return at::full({}, grad_scale, like.options().dtype(at::kFloat).requires_grad(false));
}

}  // namespace sluice
