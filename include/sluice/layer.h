// Describes a model's layers, and keys random numbers so that they do not depend on the layout.
//
//     sluice::LayerSpec up = sluice::layer(
//         "up", {"x"}, {"hidden"}, [] { return torch::nn::Linear(16, 64); },
//         [](torch::nn::LinearImpl& m, const sluice::Values& in) { return m.forward(in["x"]); });
//
// Every rank has the batch's inputs. Other values are sent to the stages that read them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/model_spec.h"
#include "sluice/parts/layout.h"
#include "sluice/parts/values.h"

namespace sluice {

// The part of a parameter that one rank holds under tensor parallelism (docs/parallelism.md). A
// dimension is divided into slices, and ranks hold adjacent slices. A weight of several
// projections, such as q, k and v, has a section for each, which is divided separately.
//
// With `split`, the tensor holds the rank's slices of each section, one section after another.
// Without `split`, every rank holds the whole tensor, but its gradient is the sum over only
// `slices`. Such a weight has one autograd variable per slice. Once a step, a balanced tree adds
// the variables' gradients, so the sum has the same bits on any number of ranks.
struct ParameterSlices {
  std::vector<std::int64_t> global_shape = {};
  std::optional<ParameterSplit> split = {};
  SliceRange slices = {};
  // Mesh axes along which the ranks' gradients are partial sums.
  AxisSet summed = {};
  std::string first_use = {};  // name of a shared weight's first variable; "": this one
  // Whether only the ranks of one coordinate along axis ep hold the parameter (an expert).
  bool of_expert = false;
};

// Second base class of modules whose parameters are divided. Without it, parameters are considered
// whole.
class SlicedModule {
 public:
  virtual ~SlicedModule() = default;
  // Returns the divided parameters by name, including those of submodules.
  virtual std::vector<std::pair<std::string, ParameterSlices>> slices() const = 0;
};

// One parameter of a layer on this rank. Chunk::buffers() returns the buffers.
struct ParameterInfo {
  std::string name = {};
  std::vector<std::int64_t> global_shape = {};
  // As in ParameterSlices.
  std::optional<ParameterSplit> split = {};
  SliceRange slices = {};
  AxisSet replicated = {};  // axes along which all ranks hold the same values
  AxisSet summed = {};
  at::Tensor tensor = {};
  bool trainable = true;
  std::string tied_to = {};  // shared weight's first use; "": not shared, or first
  int layer = 0;
  bool of_expert = false;

  bool is_whole() const { return !split || slices.size() == slices.count; }
  // Returns the parts of the whole parameter that this rank holds, in the order in which `tensor`
  // concatenates them along split->dim.
  std::vector<Slice> boxes() const;
};

struct LayerSpec {
  std::string name = {};                   // also keys the layer's random numbers
  std::optional<std::string> prefix = {};  // prefix of parameter names; none: `name`
  std::vector<std::string> reads = {"hidden"};
  std::vector<std::string> writes = {"hidden"};
  // Creates the module on the rank that owns the layer. Weights are set later. The module's device,
  // dtype and requires_grad must not change afterwards. Empty: no parameters.
  std::function<std::shared_ptr<torch::nn::Module>()> make = {};
  // Computes the tensors of `writes` (may be undefined) from those of `reads`. May modify
  // activations in place where autograd allows it, but never batch inputs.
  std::function<std::vector<at::Tensor>(torch::nn::Module&, const std::vector<at::Tensor>&)>
      forward = {};
  // Computes the outputs' shapes and dtypes from the inputs'. Empty: each
  // message between stages carries shapes and dtypes with the tensors.
  std::function<std::vector<TensorMeta>(const std::vector<TensorMeta>&)> shapes = {};
  // {name inside the module, full name of the first use} for each tied parameter.
  std::vector<std::pair<std::string, std::string>> ties = {};
  // {name inside the module, part on this rank} for divided parameters outside a SlicedModule.
  std::vector<std::pair<std::string, ParameterSlices>> slices = {};
  // Draws the initial value of a parameter in place, before it is sliced. `name` is the name inside
  // the module, `key` the full name of the first use. Default: normal(0, 0.02) for two or more
  // dimensions, ones for vectors named "weight", zeros for "...bias". Other parameters keep their
  // value from `make`.
  std::function<void(const std::string& name, const std::string& key, at::Tensor& value,
                     std::uint64_t seed)>
      initialize = {};
  LayerRole role = LayerRole::kBlock;
  // Without a cost, describe() (model.h) runs the layer to find it.
  std::optional<LayerCost> cost = {};
  std::string class_name = {};  // of the module, if known before `make` runs
  // Whether the backward recomputes the forward. Set by build_stages().
  bool recompute = false;
  // Set by build_stages() for layers from Model::fuse. continues: whether the layer draws on from
  // where the previous layer's random numbers ended, instead of starting its own stream.
  // num_layers: how many layers it replaces.
  bool continues = false;
  int num_layers = 1;
  // Name in error messages. Empty: "layer 'NAME'".
  std::string shown_as = {};

  std::string full_name(const std::string& inside) const {
    const std::string& start = prefix ? *prefix : name;
    return start.empty() ? inside : start + "." + inside;
  }
};

// Makes a layer from one module. make() returns a shared_ptr or holder. forward() returns a tensor
// if the layer writes one value, otherwise Values.
template <typename Make, typename Forward>
LayerSpec layer(std::string name, std::vector<std::string> reads, std::vector<std::string> writes,
                Make make, Forward forward) {
  using Module = std::remove_cvref_t<decltype(*make())>;
  static_assert(
      std::is_base_of_v<torch::nn::Module, Module>,
      "make() of sluice::layer() returns a shared_ptr of a torch::nn::Module, or its holder");
  static_assert(std::is_invocable_v<const Forward&, Module&, const Values&>,
                "forward of sluice::layer() takes (Module&, const sluice::Values&)");
  using Result = std::invoke_result_t<const Forward&, Module&, const Values&>;
  LayerSpec spec;
  spec.name = std::move(name);
  spec.reads = reads;
  spec.writes = writes;
  spec.make = [make = std::move(make)]() -> std::shared_ptr<torch::nn::Module> {
    auto made = make();
    if constexpr (requires { made.ptr(); }) {
      return made.ptr();
    } else {
      return made;
    }
  };
  spec.forward = [forward = std::move(forward), reads = std::move(reads),
                  writes = std::move(writes)](torch::nn::Module& module,
                                              const std::vector<at::Tensor>& inputs) {
    Values in;
    for (std::size_t i = 0; i < reads.size(); ++i) in.set(reads[i], inputs[i]);
    Module& own = *module.as<Module>();
    if constexpr (std::is_convertible_v<Result, at::Tensor>) {
      return std::vector<at::Tensor>{forward(own, in)};
    } else {
      const Values out = forward(own, in);
      std::vector<at::Tensor> outputs;
      for (const std::string& written : writes) outputs.push_back(out.get(written));
      return outputs;
    }
  };
  return spec;
}

// ---- random numbers ----

// While a scope exists, operators on its thread (dropout, rand, ...) draw from a stream with this
// key, one per device, instead of the default generator. Scopes nest and must end on their thread.
// Random numbers in backwards are not keyed, so a custom autograd function that recomputes its
// forward must save the forward's random numbers.
//
//     const KeyedRandomScope scope(seed, step, "loader", 0);
class KeyedRandomScope {
 public:
  KeyedRandomScope(std::uint64_t seed, std::int64_t step, std::string_view layer,
                   std::int64_t microbatch);
  ~KeyedRandomScope();
  KeyedRandomScope(const KeyedRandomScope&) = delete;
  KeyedRandomScope& operator=(const KeyedRandomScope&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Fills a tensor with normal(mean, std) without autograd. Element i (row-major) depends only on
// (seed, name, offset + i), so any slice has the same bits everywhere. A number is computed
// as a double and rounded to float32 or float64. Other dtypes are rounded from the float32. Throws
// Error(kInternal) for a negative offset or a dtype that is not floating-point.
void keyed_normal_(at::Tensor& tensor, std::uint64_t seed, std::string_view name, double mean,
                   double std, std::int64_t offset = 0);

}  // namespace sluice
