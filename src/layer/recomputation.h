// Recomputes layers in the backward, so that they keep only their inputs.
//
// A recomputed layer is one node of the graph. Its forward runs without a graph. Its backward
// repeats the forward with the same random numbers, then runs that graph's backward. During I it
// leaves the weight gradients to W (split_backward.h). Values that the layer reads pass through the
// node to later readers, so gradients are summed in the same order as without recomputation.
//
// Buffers such as running statistics keep the values of the first forward. Other state of a module
// changes twice.
#pragma once

#include <memory>
#include <vector>

#include "layer/parameter_hooks.h"
#include "sluice/parts/chunk.h"

namespace sluice {

class Recomputation : public std::enable_shared_from_this<Recomputation> {
 public:
  // The arguments must outlive this object and its graphs.
  Recomputation(Chunk& chunk, ParameterHooks& hooks) : chunk_(chunk), hooks_(hooks) {}

  // Runs layers with LayerSpec::recompute without a graph, and others as usual. Throws
  // Error(kUsage), immediately or in the backward, if a layer modifies its inputs.
  Chunk::LayerCall call(const MicrobatchKey& key);
  // on: add early weight gradients from I only during W.
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
