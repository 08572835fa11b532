// The consecutive layers that one stage runs, as one callable.
//
// Owns: modules, parameters and storage of local layers; lifetime of values inside a forward; under
// autocast the copies of weights that products read; ChunkBackward, how its backward is carried
// out. Does not own: order, misuse, devices of what crosses a cut (stage.h), weights on disk
// (hf_directory.h). Thread-safety: a Chunk belongs to one rank's thread.
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
//  2. Every use of a tied parameter is a leaf of its own (its own gradient); uses that are in one
//     chunk, or in chunks of one rank (build_stages), share the storage of the first of them.
//  3. forward() drops a value before the last layer that reads it runs (unless it leaves the
//     chunk).
class Chunk {
 public:
  // Runs layer i. May put others in the place of the tensors that the layer reads, for those that
  // read the same values later.
  using LayerCall =
      std::function<std::vector<at::Tensor>(std::size_t i, std::vector<at::Tensor>& read)>;

  // first_layer: position of layers[0] in the whole model. inputs / outputs: the values that enter
  // and leave, in the order of the message. Creates the modules; random numbers drawn meanwhile are
  // keyed by the layer's name. Throws Error(kUsage) for layers that contradict themselves.
  Chunk(std::vector<LayerSpec> layers, int first_layer, std::vector<std::string> inputs,
        std::vector<std::string> outputs);
  ~Chunk();
  Chunk(Chunk&&) noexcept;
  Chunk& operator=(Chunk&&) noexcept;

  // received: exactly `inputs()`. batch: the microbatch's inputs, from every rank's own loader.
  // Returns the values named by `outputs()`, in order. Random numbers inside are keyed by
  // (seed, step, layer name, microbatch), see KeyedRandomScope. Throws Error(kUsage) naming the
  // layer when a value is missing, a layer returns another number of values than it writes, or it
  // writes to one of the batch in place. call: in place of run_layer(); empty: run_layer().
  Values forward(Values received, const Values& batch, std::uint64_t seed, std::int64_t step,
                 std::int64_t microbatch, const LayerCall& call = {});
  // One layer on what it reads, with its random numbers. begin: where they begin, if not as those
  // of a forward.
  std::vector<at::Tensor> run_layer(std::size_t i, const std::vector<at::Tensor>& read,
                                    std::uint64_t seed, std::int64_t step, std::int64_t microbatch,
                                    const KeyedStream* begin = nullptr);
  // Where those of layer i begin, when all before it have run; null: at its own key.
  std::shared_ptr<const KeyedStream> random_numbers(std::size_t i) const;

  // Metas of outputs(), given those of inputs(); nullopt when a layer has no shape function. Throws
  // Error(kUsage) naming a layer whose shape function gives another number of metas than it writes.
  std::optional<std::vector<TensorMeta>> output_metas(const std::vector<TensorMeta>& inputs,
                                                      const Values& batch) const;

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  const std::vector<LayerSpec>& layers() const { return layers_; }
  int first_layer() const { return first_layer_; }
  // Which of layers() the parameter is of.
  std::size_t index_of(const ParameterInfo& parameter) const;
  torch::nn::Module& module(std::size_t i) { return *modules_[i]; }
  std::vector<ParameterInfo>& parameters() { return parameters_; }
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  // Buffers of the modules, as running statistics, by full name; not copied. Those of one name in
  // several layers are one.
  std::vector<std::pair<std::string, at::Tensor>> buffers() const;
  void train(bool on);
  // Under autocast products read copies of the weights in its type, made once for all forwards. To
  // be called when weights have changed otherwise than by operators on the parameters themselves.
  // (An Executor does so after each step, a Stage with its gradients.)
  void clear_casted_weights();
  CastedWeights& casted_weights() { return *casted_weights_; }  // for the stage
  // The modules of all layers, each before its submodules; layers without a module of their own
  // have an empty one.
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;

  // When no received value requires a gradient: what the first layer whose values require one wrote
  // during the last forward, the inner boundary at which such a stage splits its backward.
  // Otherwise empty. Cleared by the call; until then the chunk holds the tensors.
  std::vector<at::Tensor> take_first_layer_outputs();
  // Which layer's forward threw last, as messages name it: "layer 'head'"; "": none has. Cleared by
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
  std::unique_ptr<KeyedStream> random_numbers_;           // of the layer that ran last
  std::vector<std::string> unused_inputs_;                // relayed to nobody, read by nobody
  std::vector<std::vector<std::string>> release_before_;  // per layer: values that it reads last
  std::vector<std::vector<std::string>> release_after_;   // per layer: written, never read
  std::vector<at::Tensor> first_layer_outputs_;
  std::string failed_layer_;
};

// Those of a step's shards that are added up here: [begin, end) of num_shards.
struct OwnShards {
  int begin = 0, end = 1;
  int num_shards = 1;
  friend bool operator==(const OwnShards&, const OwnShards&) = default;
};

// Where the weight gradients of one parameter use add up over the microbatches of a step, in the
// order of the calls; those of half precision in float32. On CUDA the engine's thread adds while
// the rank's thread waits for it.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  virtual const at::Tensor& parameter() const = 0;
  // Undefined: nothing. Throws Error(kUsage) for a sparse gradient.
  virtual void add(const at::Tensor& gradient) = 0;
  // For one gradient of the sum's own type that the caller adds by itself, at once: the sum, dense,
  // and whether it is empty, when its numbers mean nothing and the gradient is written over them.
  // Undefined where the sum has another type than the parameter, or no dense memory.
  virtual std::pair<at::Tensor, bool> add_in_place() = 0;
};

// Key of random numbers and of the step's data for one forward.
struct MicrobatchKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t microbatch = 0;
};

// The sums of a stage's parameters, in the order of Chunk::parameters(); null: frozen.
using GradientSums = std::vector<std::unique_ptr<GradientSum>>;

// The backward of one microbatch through a chunk: whole (B), or in two halves (I, W). A Stage walks
// autograd's graph unless it is told otherwise (docs/split-backward.md). Who knows the backward of
// a chunk better, a fused kernel for instance, writes it down here and gives it to the stage.
//
// Invariants, of every implementation:
//  1. full() has the bits of input() and then weight(): gradients and sums.
//  2. Each sum is added to at most once for each use of its parameter. When full() or weight() has
//     returned, every sum has all that it gets from this microbatch; `.grad` is not touched.
//  3. keep() holds no output and no root alive, other than what the backward reads.
class ChunkBackward {
 public:
  virtual ~ChunkBackward() = default;

  // received: the chunk's inputs, on the stage's device; those that require grad get a gradient.
  // Returns the outputs in order; those that shall get a gradient require grad. Called once, first;
  // without grad mode no backward follows.
  virtual Values forward(const MicrobatchKey& key, Values received, const Values& batch) = 0;
  // The roots from which the backward starts: the outputs, or on the last stage the loss, which
  // autograd has computed from them. Called once, after forward().
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
