// Runs the layers of one stage.
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

// The layers [first_layer, first_layer + layers.size()) of the model.
//
// parameters() is in layer order. Each use of a tied parameter is an autograd leaf with its own
// gradient. Uses on one rank share storage. A Chunk belongs to its rank's thread.
class Chunk {
 public:
  // Runs layer i. May replace tensors in `read`, also for later layers.
  using LayerCall =
      std::function<std::vector<at::Tensor>(std::size_t i, std::vector<at::Tensor>& read)>;

  // Makes the modules. Random numbers are keyed by layer name. `inputs` and `outputs` are in
  // message order. Throws Error(kUsage) for an inconsistent layer.
  Chunk(std::vector<LayerSpec> layers, int first_layer, std::vector<std::string> inputs,
        std::vector<std::string> outputs);
  ~Chunk();
  Chunk(Chunk&&) noexcept;
  Chunk& operator=(Chunk&&) noexcept;

  // Maps the values of inputs() to those of outputs(). `call` defaults to run_layer(). Random
  // numbers are keyed by (seed, step, layer name, microbatch). Values are dropped before their last
  // reader runs. Throws Error(kUsage) if a value is missing, or a layer returns the wrong number of
  // values or writes to a batch input.
  Values forward(Values received, const Values& batch, std::uint64_t seed, std::int64_t step,
                 std::int64_t microbatch, const LayerCall& call = {});
  // Runs layer i with random numbers from `begin`. Null: keyed as in forward().
  std::vector<at::Tensor> run_layer(std::size_t i, const std::vector<at::Tensor>& read,
                                    std::uint64_t seed, std::int64_t step, std::int64_t microbatch,
                                    const KeyedStream* begin = nullptr);
  // The random stream with which layer i starts. Null: a new stream with its own key.
  std::shared_ptr<const KeyedStream> random_numbers(std::size_t i) const;

  // Returns the outputs' shapes and dtypes. None if a layer has no shape function. Throws
  // Error(kUsage) for a wrong number of metas.
  std::optional<std::vector<TensorMeta>> output_metas(const std::vector<TensorMeta>& inputs,
                                                      const Values& batch) const;

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  const std::vector<LayerSpec>& layers() const { return layers_; }
  int first_layer() const { return first_layer_; }
  std::size_t index_of(const ParameterInfo& parameter) const;
  torch::nn::Module& module(std::size_t i) { return *modules_[i]; }
  std::vector<ParameterInfo>& parameters() { return parameters_; }
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  // Buffers by full name, each once, not copied.
  std::vector<std::pair<std::string, at::Tensor>> buffers() const;
  void train(bool on);
  // Drops the weight copies that autocast reuses across forwards. Executor calls it after each
  // step. Call it if weights changed by other means than operators on the parameters.
  void clear_casted_weights();
  CastedWeights& casted_weights() { return *casted_weights_; }
  // Lists each module before its submodules. A layer without a module has an empty one.
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;

  // Returns and clears the last forward's outputs of the first layer with trained weights, where
  // the first stage splits its backward. Empty if a received value requires a gradient.
  std::vector<at::Tensor> take_first_layer_outputs();
  // Returns and clears the layer whose forward threw last ("layer 'head'"), or "".
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
  std::unique_ptr<KeyedStream> random_numbers_;
  std::vector<std::string> unused_inputs_;
  std::vector<std::vector<std::string>> release_before_;
  std::vector<std::vector<std::string>> release_after_;
  std::vector<at::Tensor> first_layer_outputs_;
  std::string failed_layer_;
};

// The gradient shards [begin, end) of num_shards that this rank sums.
struct OwnShards {
  int begin = 0, end = 1;
  int num_shards = 1;
  friend bool operator==(const OwnShards&, const OwnShards&) = default;
};

// Sums the gradients of one use of a parameter over a step's microbatches, in call order and
// float32 for half precision. On CUDA, autograd's device thread adds while the rank's thread waits.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  virtual const at::Tensor& parameter() const = 0;
  // Ignores an undefined gradient. Throws Error(kUsage) for a sparse one.
  virtual void add(const at::Tensor& gradient) = 0;
  // Returns the sum, to which the caller must add one gradient, or which it must overwrite if the
  // flag is true. Returns an undefined tensor if the sum is not dense or not of the parameter's
  // dtype.
  virtual std::pair<at::Tensor, bool> add_in_place() = 0;
};

struct MicrobatchKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t microbatch = 0;
};

// In the order of Chunk::parameters(). Null for frozen parameters.
using GradientSums = std::vector<std::unique_ptr<GradientSum>>;

// The backward of one microbatch through a chunk, whole (B) or in two halves (I, W).
//
// By default a Stage walks autograd's graph (docs/numbers.md). Implement this interface for a
// better backward, such as a fused kernel. full() must give the same bits as input() followed by
// weight(). Add to a sum at most once per use of its parameter, before full() or weight() returns.
// Do not touch `.grad`, and keep no output or root alive that the backward does not read.
class ChunkBackward {
 public:
  virtual ~ChunkBackward() = default;

  // Called first and once. Outputs that will get a gradient must require grad, as received values
  // do. Without grad mode, no backward follows.
  virtual Values forward(const MicrobatchKey& key, Values received, const Values& batch) = 0;
  // Called once after forward() with the outputs or, on the last stage, the loss.
  virtual void keep(const std::vector<at::Tensor>& roots) = 0;

  // Runs the whole backward (B). Takes a gradient per root and returns one per input, undefined for
  // none.
  virtual std::vector<at::Tensor> full(std::vector<at::Tensor> root_gradients) = 0;
  // Computes input gradients (I). With hold_weights, weight gradients that this call had to compute
  // are added only in weight().
  virtual std::vector<at::Tensor> input(std::vector<at::Tensor> root_gradients,
                                        bool hold_weights) = 0;
  virtual void weight() = 0;
  // False if input() had to compute all weight gradients.
  virtual bool splits() const { return true; }
};

// Both arguments outlive the returned object.
using ChunkBackwardMaker =
    std::function<std::unique_ptr<ChunkBackward>(Chunk& chunk, const GradientSums& sums)>;

}  // namespace sluice
