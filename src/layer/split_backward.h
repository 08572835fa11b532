// Splits the backward of one microbatch into input gradients (I) and, later, weight gradients (W).
//
// A node *reaches the input* if a gradient through it gets to a stage input, and *reaches weights*
// if one gets to a parameter. A *frontier* node reaches the input and has an edge to a node that
// reaches only weights, such as the product of linear(x). Roots that reach only weights are
// frontier nodes too. I runs the engine towards the inputs and captures the gradients at the
// frontier. Then it drops the frontier's edges towards the input, which frees nodes that led only
// there. W runs the engine from each frontier node down to the weights.
//
//    loss ── F1 ── n ── F2 ── input      I: loss → F1 → n → F2 → input, capturing at F1 and F2
//             │          │               W: F1 → w1, then F2 → w2
//            w1         w2
//
// The engine evaluates only nodes that the requested gradients need, so I and W together do the
// work of one whole backward, with the same bits.
//
// *Early weights* get their gradient during I. They are below several frontier nodes, none of which
// can finish the gradient alone, or below a custom torch::autograd::Function. Such a function
// computes all its gradients at once unless declare_selective_backward() was called.
//
// The idea is from zero-bubble schedules (Qi et al., arXiv 2401.10241).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <utility>
#include <vector>

#include "layer/autograd_node.h"

namespace sluice {

// The weight gradients that run_input_backward() leaves for the weight pass.
class DeferredWeights {
 public:
  // Runs the engine from each frontier node to the AccumulateGrad nodes. Frees each part of the
  // graph afterwards.
  void run() &&;
  bool empty() const { return frontier_.empty(); }

 private:
  friend struct InputBackward run_input_backward(const torch::autograd::edge_list&,
                                                 const torch::autograd::variable_list&,
                                                 const torch::autograd::edge_list&,
                                                 const std::vector<NodePtr>&);
  struct Frontier {
    NodePtr node;
    torch::autograd::variable_list gradients;  // one per input of `node`
  };
  std::vector<Frontier> frontier_;
};

struct InputBackward {
  torch::autograd::variable_list input_gradients;  // per edge of `inputs`; may be undefined
  // AccumulateGrad nodes of early weights, each with its gradient.
  std::vector<std::pair<NodePtr, at::Tensor>> early_weights;
  DeferredWeights deferred;
};

// Declares that the torch::autograd::Function of y computes only gradients that needs_input_grad()
// requests, and may run once for each.
void declare_selective_backward(const at::Tensor& y);

// Computes input gradients, starting at `roots` with defined `gradients`. inputs: edges whose
// gradients are returned. boundary: nodes where the pass also ends, without returned gradients.
// They split a stage without differentiable inputs.
InputBackward run_input_backward(const torch::autograd::edge_list& roots,
                                 const torch::autograd::variable_list& gradients,
                                 const torch::autograd::edge_list& inputs,
                                 const std::vector<NodePtr>& boundary);

}  // namespace sluice
