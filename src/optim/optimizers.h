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

// Returns the parameter's gradient in the parameter's memory layout, or an undefined tensor.
at::Tensor gradient_like(const at::Tensor& parameter);

// Whether LibTorch's fused kernels take the parameter. It must be dense, on CPU or CUDA, in float32
// or float64, with a gradient of the same type.
bool can_fuse(const at::Tensor& parameter, const at::Tensor& gradient);

at::ScalarType state_type(const at::Tensor& parameter);

// Returns grad_scale as a tensor for fused kernels, or nullopt if it is 1.
std::optional<at::Tensor> grad_scale_tensor(double grad_scale, const at::Tensor& like);

// A kind of state, such as "exp_avg". Optimizer::state() names it "NAME/PARAMETER".
struct StateKind {
  std::string name;
  bool per_element = true;  // otherwise one number per parameter
  at::ScalarType dtype = at::kFloat;
};
std::vector<StateKind> state_kinds(OptimizerKind kind, const at::Tensor& parameter);

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options,
                                      std::vector<OptimizedParameter> parameters);
std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options,
                                    std::vector<OptimizedParameter> parameters);

// Calls update(parts) with the same elements of all tensors, which must have equal strides. Divides
// dense CPU tensors into blocks, because operators' bits may depend on an element's position. The
// result then depends neither on block owners nor on threads. Passes other tensors whole.
void update_by_blocks(const std::vector<at::Tensor>& tensors,
                      const std::function<void(std::vector<at::Tensor>& parts)>& update);

}  // namespace sluice
