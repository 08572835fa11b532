#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace sluice {

struct ParameterGroup {
  double weight_decay = 0.0;
  std::vector<std::size_t> members;
};

std::vector<double> weight_decays(const std::vector<OptimizedParameter>& parameters,
                                  const OptimizerOptions& options);
std::vector<ParameterGroup> group_parameters(const std::vector<OptimizedParameter>& parameters,
                                             std::span<const std::size_t> members,
                                             const std::vector<double>& weight_decays);

// Returns the gradient in the parameter's memory layout, so that both are flat arrays. May be
// undefined.
at::Tensor gradient_like(const at::Tensor& parameter);

// Fused kernels take dense CPU or CUDA parameters in float32 or float64, with gradients of the same
// type.
bool can_fuse(const at::Tensor& parameter, const at::Tensor& gradient);

at::ScalarType state_type(const at::Tensor& parameter);

// Returns the scale for fused kernels, or nullopt for 1.
std::optional<at::Tensor> grad_scale_tensor(double grad_scale, const at::Tensor& like);

// A kind of state that every parameter has, "NAME/PARAMETER" in Optimizer::state().
struct StateKind {
  std::string name;
  bool per_element = true;  // otherwise one number
  at::ScalarType dtype = at::kFloat;
};
std::vector<StateKind> state_kinds(OptimizerKind kind, const at::Tensor& parameter);

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options,
                                      std::vector<OptimizedParameter> parameters);
std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options,
                                    std::vector<OptimizedParameter> parameters);

// Calls update(parts) with the same elements of all tensors, which must have equal strides. Passes
// dense CPU tensors in blocks, because operators' bits may depend on an element's position. The
// result depends neither on block owners nor on threads. Passes other tensors whole.
void update_by_blocks(const std::vector<at::Tensor>& tensors,
                      const std::function<void(std::vector<at::Tensor>& parts)>& update);

}  // namespace sluice
