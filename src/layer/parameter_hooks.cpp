#include "layer/parameter_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

#include "sluice/error.h"

namespace sluice {
namespace {

// Adds the gradient to the sum and leaves nothing for AccumulateGrad. The pointer to the stage is
// weak, because autograd nodes cannot remove hooks and may outlive the stage.
struct TakeGradient final : torch::autograd::FunctionPreHook {
  TakeGradient(std::weak_ptr<const bool> of_stage, GradientSum* of_parameter)
      : running(std::move(of_stage)), sum(of_parameter) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    const std::shared_ptr<const bool> runs = running.lock();
    if (!runs || !*runs) return gradients;
    sum->add(gradients[0]);
    return {at::Tensor()};
  }
  const std::weak_ptr<const bool> running;
  GradientSum* const sum;
};

}  // namespace

ParameterHooks::ParameterHooks(const std::vector<ParameterInfo>& parameters,
                               const GradientSums& sums, std::string place)
    : place_(std::move(place)) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    NodePtr& node = nodes_.emplace_back();
    if (!sums[i]) continue;
    node = torch::autograd::impl::grad_accumulator(parameters[i].tensor);
    node->add_pre_hook(std::make_unique<TakeGradient>(running_, sums[i].get()));
    sums_[node.get()] = sums[i].get();
  }
}

void ParameterHooks::check(const std::vector<ParameterInfo>& parameters) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters[i].tensor;
    const bool ours = nodes_[i]
                          ? torch::autograd::impl::try_get_grad_accumulator(tensor) == nodes_[i]
                          : !tensor.requires_grad();
    if (ours) continue;
    throw Error(ErrorKind::kUsage,
                {.what = "parameter '" + parameters[i].name +
                         "' was moved, converted or unfrozen after its stage was made",
                 .where = place_,
                 .remedy = "do so in LayerSpec::make or in the parallelize hook, or move all by "
                           "Pipeline::to"});
  }
}

GradientSum* ParameterHooks::sum_of(const torch::autograd::Node* node) const {
  const auto found = sums_.find(node);
  return found == sums_.end() ? nullptr : found->second;
}

SumTarget ParameterHooks::target(const torch::autograd::Node* leaf) {
  GradientSum* sum = sum_of(leaf);
  if (!sum) return {};
  auto [tensor, is_empty] = sum->add_in_place();
  return {std::move(tensor), is_empty};
}

}  // namespace sluice
