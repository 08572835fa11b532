#include "ops/split_node.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "layer/call_place.h"
#include "ops/kernels/kernels.h"
#include "sluice/error.h"

namespace sluice::ops {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::variable_list;

WeightGradients::Target WeightGradients::begin(std::size_t weight) {
  if (WeightSums* sums = current_weight_sums()) {
    const SumTarget target = sums->target(leaves_[weight]);
    if (target.sum.defined()) return {target.sum.mutable_data_ptr<float>(), !target.is_empty};
  }
  handed_over_[weight] = at::empty_like(weights_[weight], at::TensorOptions().requires_grad(false));
  return {handed_over_[weight].mutable_data_ptr<float>(), false};
}

void WeightGradients::give(std::size_t weight, const float* gradient) {
  const Target target = begin(weight);
  const std::int64_t size = weights_[weight].numel();
  if (target.adds) {
    kernels().add_scaled(size, 1, gradient, target.data);
  } else {
    std::memcpy(target.data, gradient, static_cast<std::size_t>(size) * sizeof(float));
  }
}

bool SplitNode::wants_gradients(const at::Tensor& input, const std::vector<at::Tensor>& weights) {
  const auto wants = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.requires_grad();
  };
  return at::GradMode::is_enabled() &&
         (wants(input) || std::any_of(weights.begin(), weights.end(), wants));
}

void SplitNode::connect(const at::Tensor& input, const std::vector<at::Tensor>& weights,
                        at::Tensor& output) {
  edge_list edges{input.defined() && input.requires_grad()
                      ? torch::autograd::impl::gradient_edge(input)
                      : Edge()};
  for (const at::Tensor& weight : weights) {
    const bool trains = weight.defined() && weight.requires_grad();
    edges.push_back(trains ? torch::autograd::impl::gradient_edge(weight) : Edge());
    versions_.push_back(weight.defined() ? static_cast<std::int64_t>(weight._version()) : 0);
    weights_left_.push_back(trains);
  }
  if (input.defined()) {
    input_version_ = torch::autograd::impl::version_counter(input);
    if (input_version_.enabled()) entered_with_ = input_version_.current_version();
  }
  weights_ = weights;
  set_next_edges(std::move(edges));
  torch::autograd::impl::set_gradient_edge(output, Edge(getptr(), add_input_metadata(output)));
}

void SplitNode::share_backward(const SliceGroup& ranks) {
  in_backward_ = ranks.of_call(detail::numbered_place());
}

void SplitNode::require_unchanged() const {
  if (is_over_) {
    throw Error(ErrorKind::kUsage,
                {.what = "the backward of " + name() + " has run already and freed its tensors",
                 .where = "a second backward through the same graph",
                 .remedy = "run the forward again, or use plain operators (`fused` = \"off\") with "
                           "retain_graph"});
  }
  if (input_version_.enabled() && input_version_.current_version() != entered_with_) {
    throw Error(ErrorKind::kUsage, {.what = "an input of " + name() +
                                            " was written to in place between forward and backward",
                                    .where = "the gradients of that forward",
                                    .remedy = "write to a copy"});
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!weights_[i].defined() || static_cast<std::int64_t>(weights_[i]._version()) == versions_[i])
      continue;
    throw Error(ErrorKind::kUsage,
                {.what = "a weight of " + name() + " was written to between forward and backward",
                 .where = "the gradients of that forward",
                 .remedy = "update weights when all backwards have run"});
  }
}

variable_list SplitNode::apply(variable_list&& gradients) {
  if (at::GradMode::is_enabled()) {
    throw Error(ErrorKind::kUsage,
                {.what = "the backward of " + name() + " cannot be differentiated again",
                 .where = "a backward with create_graph",
                 .remedy = "use plain operators (`fused` = \"off\")"});
  }
  variable_list result(num_outputs());
  if (!gradients[0].defined()) return result;
  require_unchanged();
  const at::Tensor gradient = gradients[0].contiguous();
  WeightGradients weights;
  bool any_weight = false;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weights.wanted_.push_back(weights_left_[i] && task_should_compute_output(1 + i));
    weights.leaves_.push_back(next_edge(1 + i).function.get());
    any_weight |= weights.wanted_.back();
    if (weights.wanted_.back()) weights_left_[i] = false;
  }
  std::optional<Work<at::Tensor>> of_input;
  const auto finish_input = [&] {
    if (!of_input) return;
    result[0] = std::exchange(of_input, std::nullopt)->wait();
    free_input_half();
  };
  if (!input_done_) {
    of_input = input_half(gradient, task_should_compute_output(0));
    input_done_ = true;
    if (in_backward_.degree() == 1) finish_input();
  }
  if (any_weight) {
    weights.weights_ = weights_;
    weights.handed_over_.resize(weights_.size());
    weight_half(gradient, weights);
  }
  finish_input();
  if (any_weight) {
    give_rest(weights);
    std::move(weights.handed_over_.begin(), weights.handed_over_.end(), result.begin() + 1);
  }
  const bool has_more =
      std::find(weights_left_.begin(), weights_left_.end(), true) != weights_left_.end();
  if (!has_more) release_variables();
  return result;
}

void SplitNode::release_variables() {
  is_over_ = true;
  free_all();
}

}  // namespace sluice::ops
