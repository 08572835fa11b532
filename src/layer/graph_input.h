// The autograd node at the start of a stage's graph, where the gradients of the stage's inputs
// arrive. Unlike leaves, the node holds no tensors. Inputs that no operator saved are therefore
// freed after the forward.
#pragma once

#include <vector>

#include "layer/split_backward.h"

namespace sluice {

class GraphInput {
 public:
  GraphInput();

  // Adds a stage input. An input that requires grad must be a leaf and becomes a result of this
  // node.
  void begin_at(const at::Tensor& input);
  int num_slots() const { return num_slots_; }
  torch::autograd::edge_list edges() const;

  // Sorts the gradients of this node's slots by input. Undefined for an input without gradient.
  std::vector<at::Tensor> by_input(torch::autograd::variable_list slots) const;
  // Returns one gradient per input after a backward that reached this node.
  std::vector<at::Tensor> take_received();

 private:
  NodePtr node_;
  int num_slots_ = 0;
  std::vector<int> slots_;  // slot of each input; -1: needs no gradient
};

}  // namespace sluice
