// Recomputes layers in the backward (activation checkpointing), so that they keep only their
// inputs.
//
// A recomputed layer is one autograd node. Its forward runs without a graph. Its backward repeats
// the forward with the same random numbers, then runs that graph's backward. An input-gradient pass
// leaves the weight gradients to a later pass (split_backward.h). Values that the layer reads also
// pass through the node to later readers, so gradients are summed in the same order as without
// recomputation.
//
// Buffers such as running statistics keep the first forward's values. Other state of a module
// changes twice.
#pragma once

#include <memory>
#include <vector>

#include "layer/parameter_hooks.h"
#include "sluice/parts/chunk.h"

namespace sluice {

class Recomputation : public std::enable_shared_from_this<Recomputation> {
 public:
  // Both arguments must outlive this object and its graphs.
  Recomputation(Chunk& chunk, ParameterHooks& hooks) : chunk_(chunk), hooks_(hooks) {}

  // Returns a function that runs layers with LayerSpec::recompute without a graph, others as usual.
  // If a layer modifies its inputs, forward or backward throws Error(kUsage).
  Chunk::LayerCall call(const MicrobatchKey& key);
  // If `on`, early weight gradients from the input-gradient pass are added only in the
  // weight-gradient pass.
  void defer_early_weights(bool on) { holds_early_weights_ = on; }

 private:
  friend class RecomputedLayer;

  std::vector<at::Tensor> run_without_graph(std::size_t layer, const MicrobatchKey& key,
                                            std::vector<at::Tensor>& read);
  std::vector<at::Tensor> trained_parameters(std::size_t layer) const;

  Chunk& chunk_;
  ParameterHooks& hooks_;
  bool holds_early_weights_ = false;
};

}  // namespace sluice
