// The start of a graph, where its inputs' gradients arrive. Unlike leaves it holds no tensors, so
// inputs that no operator saved are freed after the forward.
#pragma once

#include <vector>

#include "layer/split_backward.h"

namespace sluice {

class GraphInput {
 public:
  GraphInput();

  // Adds the next input. An input that requires grad must be a leaf and becomes a result of this
  // node.
  void begin_at(const at::Tensor& input);
  int num_slots() const { return num_slots_; }
  torch::autograd::edge_list edges() const;

  // Sorts the gradients of the slots by input. Undefined for inputs without gradient.
  std::vector<at::Tensor> by_input(torch::autograd::variable_list slots) const;
  // Returns the gradients by input after a backward that ran to this node.
  std::vector<at::Tensor> take_received();

 private:
  NodePtr node_;
  int num_slots_ = 0;
  std::vector<int> slots_;  // by input; -1: needs no gradient
};

}  // namespace sluice
