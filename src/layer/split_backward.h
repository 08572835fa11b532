// Splits the backward of one microbatch: gradients of the inputs first (I), of the weights later
// (W).
//
// Theory. Walk the autograd graph from its roots. A node *reaches the input* when a gradient that
// flows through it gets to a stage input, and *reaches weights* when it gets to a parameter. A node
// that reaches the input and has an edge into a part that reaches weights only is a *frontier* node
// (for y = linear(x): the node of the product). I runs the engine towards the inputs alone and
// captures what arrives at the frontier. Then the frontier is cut: its edges towards the input are
// dropped, which frees every node that led to the input only. W runs the engine once per frontier
// node on what was captured, into what is left below it: the weights.
//
//        loss ── F1 ── n ── F2 ── input           I: loss → F1 → n → F2 → input, capturing at F1,
//        F2
//                 │          │                    W: F1 → w1, then F2 → w2
//                w1         w2
//
// The engine evaluates only what leads to what it is asked for, so no product is computed twice and
// I + W do the work of B. The sums are the same bits as those of B. A root that reaches weights
// only is a frontier node, too: I takes note of its gradient, W does the rest.
//
// Early weights. A parameter that two frontier nodes share (or any part below them that they share)
// cannot be finished from one of them alone, and a custom torch::autograd::Function computes all
// its gradients at once, unless it says that it does not (computes_what_is_asked): the parameters
// below these get their gradient during I.
//
// After the idea of zero-bubble schedules (Qi et al., arXiv 2401.10241); the walk is ours.
// Thread-safety: pure values; a graph belongs to the rank that built it.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <utility>
#include <vector>

#include "layer/autograd_node.h"

namespace sluice {

// The work that I leaves for W.
class DeferredWeights {
 public:
  // Runs the engine from every frontier node into its weights; each part is freed right after.
  // Gradients arrive at the parameters' AccumulateGrad nodes.
  void run() &&;
  bool empty() const { return frontier_.empty(); }

 private:
  friend struct InputBackward run_input_backward(const torch::autograd::edge_list&,
                                                 const torch::autograd::variable_list&,
                                                 const torch::autograd::edge_list&,
                                                 const std::vector<NodePtr>&);
  struct Frontier {
    NodePtr node;
    torch::autograd::variable_list gradients;  // one per input of the node
  };
  std::vector<Frontier> frontier_;
};

struct InputBackward {
  torch::autograd::variable_list input_gradients;  // one per edge of `inputs`, maybe undefined
  // Gradients of early weights: the AccumulateGrad node and what it would have received.
  std::vector<std::pair<NodePtr, at::Tensor>> early_weights;
  DeferredWeights deferred;
};

// Says of the torch::autograd::Function that made y, whatever it needs a gradient for, that its
// backward computes what needs_input_grad() asks for and no more, and may be called once for each.
void computes_what_is_asked(const at::Tensor& y);

// roots, gradients: where backward starts and what arrives there (defined, same number).
// inputs: edges whose gradient is wanted. boundary: further nodes to be treated as inputs, whose
// own gradients nobody wants: where a stage without differentiable inputs is split.
InputBackward run_input_backward(const torch::autograd::edge_list& roots,
                                 const torch::autograd::variable_list& gradients,
                                 const torch::autograd::edge_list& inputs,
                                 const std::vector<NodePtr>& boundary);

}  // namespace sluice
