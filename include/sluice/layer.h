// A model as a list of layers, and a chunk: the consecutive layers that one stage runs.
//
// Owns: LayerSpec (name, factory, forward, shapes), Values, ParameterInfo, Chunk.
// Does not own: ranks, transfers, autograd of a stage (stage.h), Hugging Face families (model.h).
//
// A layer names the values that it reads and writes. Batch inputs ("input_ids", "labels", ...) are
// present on every rank and never cross a cut; every other value that is read after a cut and
// written before it crosses, relayed through the stages between.
//
// Thread-safety: a LayerSpec is immutable and may be shared; a Chunk belongs to one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// What is known of a tensor without having it.
struct TensorMeta {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};
TensorMeta meta_of(const at::Tensor& tensor);
std::string to_text(const TensorMeta& meta);   // "float32[2, 16, 64]"
std::string dtype_name(at::ScalarType dtype);  // "float32", "bfloat16", "int64"

// Named tensors in a fixed order. Small: linear search.
class Values {
 public:
  Values() = default;
  Values(std::initializer_list<std::pair<std::string, at::Tensor>> items) : items_(items) {}
  bool has(std::string_view name) const;
  // Throws Error(kInternal) naming the value and those present.
  const at::Tensor& get(std::string_view name) const;
  void set(const std::string& name, at::Tensor tensor);  // adds or replaces
  void erase(std::string_view name);
  std::size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<std::pair<std::string, at::Tensor>> items_;
};

// One parameter of a local layer.
struct ParameterInfo {
  std::string
      name;  // full name, that of the checkpoint: prefix of the layer + "." + name inside it
  std::vector<std::int64_t> global_shape;
  at::Tensor tensor;  // the leaf variable on this rank
  bool trainable = true;
  std::string tied_to;  // full name of the first use, "" if this is it or untied
  int layer = 0;        // position in the whole model's list of layers
};

struct LayerSpec {
  std::string name;                   // key of its random numbers
  std::optional<std::string> prefix;  // of its parameters' full names, when it is not the name
  std::vector<std::string> reads = {"hidden"};
  std::vector<std::string> writes = {"hidden"};
  // Allocates the module. Parameters need not be initialised: weights are loaded or drawn
  // afterwards by full name. Called only on the rank that owns the layer. Empty: a layer without
  // parameters.
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  // inputs in the order of `reads`, outputs in the order of `writes`.
  std::function<std::vector<at::Tensor>(torch::nn::Module&, const std::vector<at::Tensor>&)>
      forward;
  // Output metas from input metas; empty function: unknown, sizes travel in headers.
  std::function<std::vector<TensorMeta>(const std::vector<TensorMeta>&)> shapes;
  // {name inside the module, full name of the first use} for every parameter tied to an earlier
  // one.
  std::vector<std::pair<std::string, std::string>> ties;
  // Draws the initial value of one of its parameters in place. name: inside the module; key: the
  // full name under which random numbers are drawn (of the first use, if tied). Empty function:
  // normal(0, 0.02) for two or more dimensions, ones for vectors named "weight", zeros for vectors
  // whose name ends with "bias"; anything else keeps what `make` gave it.
  std::function<void(const std::string& name, const std::string& key, at::Tensor& value,
                     std::uint64_t seed)>
      initialize;
};

// The layers [first, first + layers.size()) of the model on this rank, as one callable.
//
// Invariants:
//  1. parameters() follows the order of the layers, then that of registration.
//  2. Every use of a tied parameter is a leaf of its own (its own gradient); uses that are in one
//     chunk, or were given to share_tied_storage(), share the storage of the first of them.
//  3. forward() drops a value before the last layer that reads it runs (unless it leaves the
//  chunk).
class Chunk {
 public:
  // first_layer: position of layers[0] in the whole model. inputs / outputs: the values that enter
  // and leave, in the order of the message. Creates the modules; random numbers drawn meanwhile are
  // keyed by the layer's name. Throws Error(kUsage) for layers that contradict themselves.
  Chunk(std::vector<LayerSpec> layers, int first_layer, std::vector<std::string> inputs,
        std::vector<std::string> outputs);

  // received: exactly `inputs()`. batch: the microbatch's inputs, from every rank's own loader.
  // Returns the values named by `outputs()`, in order. Random numbers inside are keyed by
  // (seed, step, layer name, microbatch), see keyed_random.h. Throws Error(kUsage) naming the layer
  // when a value is missing or a layer returns another number of values than it writes.
  Values forward(Values received, const Values& batch, std::uint64_t seed, std::int64_t step,
                 std::int64_t microbatch);

  // Metas of outputs(), given those of inputs(); nullopt when a layer has no shape function.
  std::optional<std::vector<TensorMeta>> output_metas(const std::vector<TensorMeta>& inputs,
                                                      const Values& batch) const;

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  const std::vector<LayerSpec>& layers() const { return layers_; }
  int first_layer() const { return first_layer_; }
  torch::nn::Module& module(std::size_t i) { return *modules_[i]; }
  std::vector<ParameterInfo>& parameters() { return parameters_; }
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  void train(bool on);

  // The values written by the first layer during the last forward, if they require a gradient and
  // no received value does: the inner boundary at which such a stage splits its backward. Otherwise
  // empty. Cleared by the call; until then the chunk holds the tensors.
  std::vector<at::Tensor> take_first_layer_outputs();

 private:
  void collect_parameters(std::size_t layer);
  void plan_releases();

  std::vector<LayerSpec> layers_;
  int first_layer_;
  std::vector<std::string> inputs_, outputs_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::vector<ParameterInfo> parameters_;
  std::vector<std::string> unused_inputs_;                // relayed to nobody, read by nobody
  std::vector<std::vector<std::string>> release_before_;  // per layer: values that it reads last
  std::vector<std::vector<std::string>> release_after_;   // per layer: written, never read
  std::vector<at::Tensor> first_layer_outputs_;
};

// Makes later uses of a tied parameter share the storage of the first use among these chunks (all
// of one rank). Values of later uses are lost: call it before weights are loaded or drawn.
// Throws Error(kUsage) when shapes or dtypes differ.
void share_tied_storage(const std::vector<Chunk*>& chunks);

// Draws every parameter of the chunk (LayerSpec::initialize): a function of (seed, full name,
// element) alone, so the same for every partition. Tied uses get the value of the first use.
void initialize_parameters(Chunk& chunk, std::uint64_t seed);

// For every cut before layer `cuts[i]`: the values that cross it, in the order of their first
// writing. batch_inputs never cross; final_outputs are read after the last layer.
// Throws Error(kUsage) for a value that nobody writes, or a layer that writes a batch input.
std::vector<std::vector<std::string>> crossing_values(
    const std::vector<LayerSpec>& layers, const std::vector<int>& cuts,
    const std::vector<std::string>& batch_inputs, const std::vector<std::string>& final_outputs);

}  // namespace sluice
