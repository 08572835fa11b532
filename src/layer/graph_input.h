// The start of a graph: its inputs, and the gradients that come back there. Unlike a leaf it holds
// no tensor, so that an input that no operator saved is free as soon as the forward is over.
// Thread-safety: one rank's thread.
#pragma once

#include <vector>

#include "layer/split_backward.h"

namespace sluice {

class GraphInput {
 public:
  GraphInput();

  // The next input. One that requires a gradient is a leaf before this, and no longer after it.
  void begin_at(const at::Tensor& input);
  int num_slots() const { return num_slots_; }  // of inputs that require a gradient
  torch::autograd::edge_list edges() const;     // one a slot

  // By input, undefined for those without; slots: what came back, by slot.
  std::vector<at::Tensor> by_input(torch::autograd::variable_list slots) const;
  // The same, of a backward that has run through to the node.
  std::vector<at::Tensor> take_received();

 private:
  NodePtr node_;
  int num_slots_ = 0;
  std::vector<int> slots_;  // by input, -1: needs no gradient
};

}  // namespace sluice
