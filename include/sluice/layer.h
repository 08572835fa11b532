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
std::string to_text(const TensorMeta& meta);  // "float32[2, 16, 64]"

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
  std::string name;                         // full name, that of the checkpoint
  std::vector<std::int64_t> global_shape;
  at::Tensor tensor;                        // the leaf variable on this rank
  bool trainable = true;
  std::string tied_to;                      // full name of the first use, "" if this is it or untied
  int layer = 0;                            // position in the whole model's list of layers
};

struct LayerSpec {
  std::string name;                               // prefix of its parameters; key of its random numbers
  std::vector<std::string> reads = {"hidden"};
  std::vector<std::string> writes = {"hidden"};
  // Allocates the module. Parameters need not be initialised: weights are loaded or drawn afterwards
  // by full name. Called only on the rank that owns the layer.
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  // inputs in the order of `reads`, outputs in the order of `writes`.
  std::function<std::vector<at::Tensor>(torch::nn::Module&, const std::vector<at::Tensor>&)> forward;
  // Output metas from input metas; empty function: unknown, sizes travel in headers.
  std::function<std::vector<TensorMeta>(const std::vector<TensorMeta>&)> shapes;
  // {name inside the module, full name of the first use} for every parameter tied to an earlier one.
  std::vector<std::pair<std::string, std::string>> ties;
  // Draws the initial value of one of its parameters (name inside the module) in place; empty: 
  // normal(0, 0.02) for matrices, ones for vectors named "weight", zeros for "bias".
  std::function<void(const std::string& name, at::Tensor& value, std::uint64_t seed)> initialize;
};

// The layers [first, first + layers.size()) of the model on this rank, as one callable.
class Chunk {
 public:
  // first_layer: position of layers[0] in the whole model. inputs / outputs: the values that enter
  // and leave, in the order of the message. Creates the modules.
  Chunk(std::vector<LayerSpec> layers, int first_layer, std::vector<std::string> inputs,
        std::vector<std::string> outputs);

  // received: exactly `inputs()`. batch: the microbatch's inputs, from every rank's own loader.
  // Returns the values named by `outputs()`, in order. Random numbers inside are keyed by
  // (seed, step, layer name, microbatch), see keyed_random.h.
  // after_layer: called after each layer with the values it wrote (stage 0 splits its backward there).
  Values forward(const Values& received, const Values& batch, std::uint64_t seed, std::int64_t step,
                 std::int64_t microbatch);

  // Metas of outputs(); nullopt when a layer has no shape function.
  std::optional<std::vector<TensorMeta>> output_metas(const std::vector<TensorMeta>& inputs,
                                                      const Values& batch) const;

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  const std::vector<LayerSpec>& layers() const { return layers_; }
  int first_layer() const { return first_layer_; }
  torch::nn::Module& module(std::size_t i) { return *modules_[i]; }
  std::vector<ParameterInfo>& parameters() { return parameters_; }
  void train(bool on);

  // The values written by the first layer during the last forward: the inner boundary at which a
  // stage without differentiable inputs splits its backward. Cleared by the call.
  std::vector<at::Tensor> take_first_layer_outputs();

 private:
  std::vector<LayerSpec> layers_;
  int first_layer_;
  std::vector<std::string> inputs_, outputs_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::vector<ParameterInfo> parameters_;
  std::vector<at::Tensor> first_layer_outputs_;
};

// For every cut before layer `cuts[i]`: the values that cross it, in the order of their first
// writing. batch_inputs never cross; final_outputs are read after the last layer.
// Throws Error(kUsage) for a value that nobody writes.
std::vector<std::vector<std::string>> crossing_values(const std::vector<LayerSpec>& layers,
                                                      const std::vector<int>& cuts,
                                                      const std::vector<std::string>& batch_inputs,
                                                      const std::vector<std::string>& final_outputs);

}  // namespace sluice
