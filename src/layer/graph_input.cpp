#include "layer/graph_input.h"

#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "layer/autograd_node.h"

namespace sluice {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

struct InputNode final : Node {
  variable_list apply(variable_list&& gradients) override {
    received = std::move(gradients);
    return {};
  }
  variable_list received;  // gradient of each slot, set by a backward
};

}  // namespace

GraphInput::GraphInput() : node_(make_node<InputNode>()) {}

void GraphInput::begin_at(const at::Tensor& input) {
  if (!input.defined() || !input.requires_grad()) {
    slots_.push_back(-1);
    return;
  }
  input.set_requires_grad(false);  // the node replaces the leaf
  torch::autograd::impl::set_gradient_edge(input, Edge(node_, node_->add_input_metadata(input)));
  slots_.push_back(num_slots_++);
}

edge_list GraphInput::edges() const {
  edge_list edges;
  for (int slot = 0; slot < num_slots_; ++slot)
    edges.emplace_back(node_, static_cast<std::uint32_t>(slot));
  return edges;
}

std::vector<at::Tensor> GraphInput::by_input(variable_list slots) const {
  std::vector<at::Tensor> result(slots_.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const int slot = slots_[i];
    if (slot >= 0 && static_cast<std::size_t>(slot) < slots.size())
      result[i] = std::move(slots[slot]);
  }
  return result;
}

std::vector<at::Tensor> GraphInput::take_received() {
  return by_input(std::move(static_cast<InputNode*>(node_.get())->received));
}

}  // namespace sluice
