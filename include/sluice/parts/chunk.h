// The consecutive layers that one stage runs, as one callable.
//
// Thread-safety: a Chunk belongs to one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/layer.h"

namespace sluice {

class CastedWeights;
class KeyedStream;

// The layers [first, first + layers.size()) of the model on this rank.
//
// Invariants:
//  1. parameters() follows the order of the layers, then that of registration.
//  2. Every use of a tied parameter is a separate leaf with its own gradient; uses in one chunk, or
//     in chunks of one rank (build_stages), share the storage of the first of them.
//  3. forward() drops a value before the last layer that reads it runs (unless it leaves the
//     chunk).
class Chunk {
 public:
  // Runs layer i. May replace the tensors that the layer reads, for layers that read the same
  // values later.
  using LayerCall =
      std::function<std::vector<at::Tensor>(std::size_t i, std::vector<at::Tensor>& read)>;

  // first_layer: position of layers[0] in the whole model. inputs / outputs: the values that enter
  // and leave, in the order of the message. Makes the modules; random numbers drawn meanwhile are
  // keyed by the layer's name. Throws Error(kUsage) for layers that contradict themselves.
  Chunk(std::vector<LayerSpec> layers, int first_layer, std::vector<std::string> inputs,
        std::vector<std::string> outputs);
  ~Chunk();
  Chunk(Chunk&&) noexcept;
  Chunk& operator=(Chunk&&) noexcept;

  // received: exactly `inputs()`. batch: the microbatch's inputs, from every rank's own loader.
  // Returns the values named by `outputs()`, in order. Random numbers inside are keyed by (seed,
  // step, layer name, microbatch), see KeyedRandomScope. Throws Error(kUsage) naming the layer when
  // a value is missing, a layer returns another number of values than it writes, or it writes to an
  // input of the batch in place. call: runs each layer; empty: run_layer().
  Values forward(Values received, const Values& batch, std::uint64_t seed, std::int64_t step,
                 std::int64_t microbatch, const LayerCall& call = {});
  // Runs one layer on the values that it reads, with its random numbers. begin: where these start,
  // if not as in a forward.
  std::vector<at::Tensor> run_layer(std::size_t i, const std::vector<at::Tensor>& read,
                                    std::uint64_t seed, std::int64_t step, std::int64_t microbatch,
                                    const KeyedStream* begin = nullptr);
  // The start of layer i's random numbers when all layers before it have run; null: its own key.
  std::shared_ptr<const KeyedStream> random_numbers(std::size_t i) const;

  // Metas of outputs(), given those of inputs(); nullopt when a layer has no shape function. Throws
  // Error(kUsage) naming a layer whose shape function gives another number of metas than it writes.
  std::optional<std::vector<TensorMeta>> output_metas(const std::vector<TensorMeta>& inputs,
                                                      const Values& batch) const;

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  const std::vector<LayerSpec>& layers() const { return layers_; }
  int first_layer() const { return first_layer_; }
  // The index in layers() of the parameter's layer.
  std::size_t index_of(const ParameterInfo& parameter) const;
  torch::nn::Module& module(std::size_t i) { return *modules_[i]; }
  std::vector<ParameterInfo>& parameters() { return parameters_; }
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  // Buffers of the modules, such as running statistics, by full name; not copied. Buffers of the
  // same name in several layers are one.
  std::vector<std::pair<std::string, at::Tensor>> buffers() const;
  void train(bool on);
  // Drops the copies of weights that products read under autocast, made once for all forwards. Call
  // it when weights have changed other than by operators on the parameters themselves. (An Executor
  // does so after each step, a Stage with its gradients.)
  void clear_casted_weights();
  CastedWeights& casted_weights() { return *casted_weights_; }  // for the stage
  // The modules of all layers, each before its submodules; layers without a module of their own
  // have an empty one.
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;

  // If no received value requires a gradient: the values that the first layer whose values require
  // one wrote during the last forward, the inner boundary at which such a stage splits its
  // backward. Otherwise empty. Cleared by the call; until then the chunk holds the tensors.
  std::vector<at::Tensor> take_first_layer_outputs();
  // The layer whose forward threw last, as messages name it: "layer 'head'"; "": none. Cleared by
  // the call.
  std::string take_failed_layer();

 private:
  void collect_parameters(std::size_t layer);
  void plan_releases();

  std::vector<LayerSpec> layers_;
  int first_layer_;
  std::vector<std::string> inputs_, outputs_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::vector<ParameterInfo> parameters_;
  std::unique_ptr<CastedWeights> casted_weights_;
  std::unique_ptr<KeyedStream> random_numbers_;           // those of the layer that ran last
  std::vector<std::string> unused_inputs_;                // neither relayed nor read
  std::vector<std::vector<std::string>> release_before_;  // per layer: values that it reads last
  std::vector<std::vector<std::string>> release_after_;   // per layer: written, never read
  std::vector<at::Tensor> first_layer_outputs_;
  std::string failed_layer_;
};

// The shards of a step that are added up on this rank: [begin, end) of num_shards.
struct OwnShards {
  int begin = 0, end = 1;
  int num_shards = 1;
  friend bool operator==(const OwnShards&, const OwnShards&) = default;
};

// The sum of the weight gradients of one parameter use over the microbatches of a step, in the
// order of the calls; gradients of half precision add up in float32. On CUDA the engine's thread
// adds while the rank's thread waits for it.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  virtual const at::Tensor& parameter() const = 0;
  // Adds a gradient; an undefined one adds nothing. Throws Error(kUsage) for a sparse gradient.
  virtual void add(const at::Tensor& gradient) = 0;
  // Lets the caller add one gradient of the sum's type itself, at once: returns the dense sum, and
  // true if it is empty, so that the gradient overwrites its numbers. Undefined if the sum has
  // another type than the parameter, or no dense memory.
  virtual std::pair<at::Tensor, bool> add_in_place() = 0;
};

// The key of the random numbers and of the data of one forward.
struct MicrobatchKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t microbatch = 0;
};

// The sums of a stage's parameters, in the order of Chunk::parameters(); null: frozen.
using GradientSums = std::vector<std::unique_ptr<GradientSum>>;

// The backward of one microbatch through a chunk: whole (B), or in two halves (I, W). By default a
// Stage walks autograd's graph (docs/numbers.md). If you know a better backward of a chunk,
// a fused kernel for instance, implement it here and give it to the stage.
//
// Invariants, of every implementation:
//  1. full() has the bits of input() and then weight(): gradients and sums.
//  2. Each sum is added to at most once for each use of its parameter. When full() or weight() has
//     returned, every sum has all that this microbatch adds; `.grad` is not touched.
//  3. keep() holds no output and no root alive that the backward does not read.
class ChunkBackward {
 public:
  virtual ~ChunkBackward() = default;

  // received: the chunk's inputs, on the stage's device; those that require grad get a gradient.
  // Returns the outputs in order; those that will get a gradient require grad. Called once, first;
  // without grad mode no backward follows.
  virtual Values forward(const MicrobatchKey& key, Values received, const Values& batch) = 0;
  // The roots from which the backward starts: the outputs, or on the last stage the loss, which
  // autograd has computed from them. Called once, after forward().
  virtual void keep(const std::vector<at::Tensor>& roots) = 0;

  // root_gradients: one per root; undefined where none arrived. Returns one gradient per input of
  // the chunk, undefined for inputs without one. After full() no other member is called.
  virtual std::vector<at::Tensor> full(std::vector<at::Tensor> root_gradients) = 0;
  // hold_weights: weight gradients that it has to compute are not added before weight().
  virtual std::vector<at::Tensor> input(std::vector<at::Tensor> root_gradients,
                                        bool hold_weights) = 0;
  // Computes the weight gradients, after input().
  virtual void weight() = 0;
  // After input(): false if that call had to compute every weight gradient itself.
  virtual bool splits() const { return true; }
};

// Makes the backward of one microbatch of this chunk. Both references outlive what it makes.
using ChunkBackwardMaker =
    std::function<std::unique_ptr<ChunkBackward>(Chunk& chunk, const GradientSums& sums)>;

}  // namespace sluice
