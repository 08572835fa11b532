// The backward of one microbatch through a chunk: whole (B), or in two halves (I, W).
//
// Owns: the interface, and what a forward keeps for the backward of its microbatch.
// Does not own: order, misuse, devices of what crosses a cut (stage.h), the sums (gradient_sum.h).
//
// A Stage walks autograd's graph unless it is told otherwise (docs/split-backward.md). Who knows
// the backward of a chunk better, a fused kernel for instance, writes it down here and gives it to
// the stage.
//
// Invariants, of every implementation:
//  1. full() has the bits of input() and then weight(): gradients and sums.
//  2. Each sum is added to at most once for each use of its parameter. When full() or weight() has
//     returned, every sum has all that it gets from this microbatch; `.grad` is not touched.
//  3. keep() holds no output and no root alive, other than what the backward reads.
// Thread-safety: one rank's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/parts/chunk.h"
#include "sluice/parts/gradient_sum.h"

namespace sluice {

// Key of random numbers and of the step's data for one forward.
struct MicrobatchKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t microbatch = 0;
};

// Of a stage's parameters, in the order of Chunk::parameters(); null: frozen.
using GradientSums = std::vector<std::unique_ptr<GradientSum>>;

class ChunkBackward {
 public:
  virtual ~ChunkBackward() = default;

  // received: the chunk's inputs, on the stage's device; those that require grad get a gradient.
  // Returns the outputs in order; those that shall get a gradient require grad. Called once, first;
  // without grad mode no backward follows.
  virtual Values forward(const MicrobatchKey& key, Values received, const Values& batch) = 0;
  // What the backward starts from: the outputs, or on the last stage the loss, which autograd has
  // computed from them. Called once, after forward().
  virtual void keep(const std::vector<at::Tensor>& roots) = 0;

  // root_gradients: one per root; undefined where none arrived. Return one gradient per input of
  // the chunk, undefined for inputs without. After full() nothing more is called.
  virtual std::vector<at::Tensor> full(std::vector<at::Tensor> root_gradients) = 0;
  // hold_weights: what it has to compute of weight gradients is not added before weight().
  virtual std::vector<at::Tensor> input(std::vector<at::Tensor> root_gradients,
                                        bool hold_weights) = 0;
  // After input().
  virtual void weight() = 0;
  // After input(): false when it had to compute every weight gradient itself.
  virtual bool splits() const { return true; }
};

// Makes the backward of one microbatch of this chunk. Both references outlive what it makes.
using ChunkBackwardMaker =
    std::function<std::unique_ptr<ChunkBackward>(Chunk& chunk, const GradientSums& sums)>;

}  // namespace sluice
