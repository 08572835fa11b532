// Layers that keep only what enters them, and run a second time in the backward.
//
// Such a layer is one node of the graph. Its forward runs without a graph. In a backward the node
// runs the forward again, with the random numbers that it had, and then the backward of the graph
// that this makes: whole under B; under I the half towards the inputs, of which the other half
// waits in the node for W. To the walk that splits a graph (split_backward.h) the node is like any
// other: it has edges to the layer's inputs and to its weights.
//
// The values that the layer reads pass through the node on their way to later readers: so gradients
// of one value add up in the order in which they do without recomputation, and the bits are the
// same.
//
// Running statistics and other buffers of the module are those of the first forward. State that a
// module keeps outside of its buffers changes twice.
// Thread-safety: one rank's thread.
#pragma once

#include <memory>
#include <vector>

#include "layer/parameter_hooks.h"
#include "sluice/parts/chunk.h"

namespace sluice {

// The recomputation of one microbatch.
class Recomputation : public std::enable_shared_from_this<Recomputation> {
 public:
  // Both outlive it and the graphs that it makes.
  Recomputation(Chunk& chunk, ParameterHooks& hooks) : chunk_(chunk), hooks_(hooks) {}

  // Runs a layer with LayerSpec::recompute without a graph, others as they are. Throws
  // Error(kUsage), then or in the backward, for a layer that writes to what it reads.
  Chunk::LayerCall call(const MicrobatchKey& key);
  // During an I: weight gradients that it has to compute are added during W.
  void hold_early_weights(bool on) { holds_early_weights_ = on; }

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
