// The shared part of the optimizers: parameters in groups that one fused kernel call can take.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace sluice {

// Parameters of one device and dtype with the same weight decay.
struct ParameterGroup {
  double weight_decay = 0.0;
  std::vector<std::size_t> members;  // indices into the optimizer's parameters
};

// By parameter.
std::vector<double> weight_decays(const std::vector<OptimizedParameter>& parameters,
                                  const OptimizerOptions& options);
// members: of the parameters.
std::vector<ParameterGroup> group_parameters(const std::vector<OptimizedParameter>& parameters,
                                             std::span<const std::size_t> members,
                                             const std::vector<double>& weight_decays);

// The gradient with the memory layout of the parameter, so that both can be walked as flat arrays;
// undefined where there is none.
at::Tensor gradient_like(const at::Tensor& parameter);

// The fused kernels take the pair: a CPU or CUDA parameter in float32 or float64, dense, and a
// gradient of the same type.
bool can_fuse(const at::Tensor& parameter, const at::Tensor& gradient);

// float64 for float64, else float32.
at::ScalarType state_type(const at::Tensor& parameter);

// The scale as the fused kernels want it; nothing for 1.
std::optional<at::Tensor> grad_scale_tensor(double grad_scale, const at::Tensor& like);

// A tensor that Optimizer::state() has for every parameter, as "NAME/PARAMETER".
struct StateKind {
  std::string name;
  bool per_element = true;  // one number per element of the parameter; else one number
  at::ScalarType dtype = at::kFloat;
};
std::vector<StateKind> state_kinds(OptimizerKind kind, const at::Tensor& parameter);

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options,
                                      std::vector<OptimizedParameter> parameters);
std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options,
                                    std::vector<OptimizedParameter> parameters);

// Calls update(parts) with the same elements of all tensors, which have the strides of the first:
// block by block where that is dense, on the CPU, so that operators, whose bits may depend on where
// in a tensor an element stands, do to it the same whoever owns the block and with any number of
// threads; else once with all.
void update_by_blocks(const std::vector<at::Tensor>& tensors,
                      const std::function<void(std::vector<at::Tensor>& parts)>& update);

}  // namespace sluice
