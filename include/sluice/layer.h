// A model as a list of layers that name the values they read and write.
//
// Batch inputs ("input_ids", "labels", ...) are present on every rank and never cross a cut; every
// other value that is read after a cut and written before it crosses, relayed through the stages
// between.
//
// Thread-safety: a LayerSpec is immutable and may be shared; a KeyedRandomScope is its thread's.
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

// The part of a divided parameter that one rank holds, as a layer or a hook declares it.
//
// With a split, the tensor holds the rank's slices: section by section, in each section its
// neighbouring slices in order. So a rank that has all slices holds the parameter unchanged.
// Without a split, the tensor is whole, and `slices` names the slices whose gradient this use has.
// A weight that all slices share has a separate variable for each slice of the rank, in their
// order: the first has the name, the others are further uses of it (`first_use`). Each then adds up
// its own microbatches, and the sums add up once a step in the tree of the slices
// (docs/parallelism.md).
struct ParameterSlices {
  std::vector<std::int64_t> global_shape = {};  // shape of the whole parameter
  std::optional<ParameterSplit> split = {};
  SliceRange slices = {};
  // The axes over which the gradient of this rank is a partial sum.
  AxisSet summed = {};
  std::string first_use = {};  // the name of the first use; "": this is it
};

// A second base class, beside torch::nn::Module, for modules whose parameters are divided among
// ranks: without it a smaller tensor is taken for the whole parameter.
class SlicedModule {
 public:
  virtual ~SlicedModule() = default;
  // The parts by name, of parameters of this module or of modules inside it. A parameter that is
  // not named is whole and the same on all ranks.
  virtual std::vector<std::pair<std::string, ParameterSlices>> slices() const = 0;
};

// One parameter of a local layer. Buffers, such as running statistics, are not parameters: they
// stay with their module, and are saved and loaded with it (Chunk::buffers).
struct ParameterInfo {
  // Full name, as in a checkpoint: prefix of the layer, ".", name inside it.
  std::string name = {};
  std::vector<std::int64_t> global_shape = {};
  // The part and the slices of it that this rank holds, as in ParameterSlices.
  std::optional<ParameterSplit> split = {};
  SliceRange slices = {};
  AxisSet replicated = {};  // axes of the mesh along which all ranks hold the same part
  AxisSet summed = {};      // axes over which this rank's gradient is a partial sum
  at::Tensor tensor = {};   // the leaf variable on this rank
  bool trainable = true;
  std::string tied_to = {};  // full name of the first use, "" if this is it or untied
  int layer = 0;             // position in the whole model's list of layers

  bool is_whole() const { return !split || slices.size() == slices.count; }
  // The boxes of the whole parameter that make up the tensor, one after the other along split->dim;
  // a whole parameter is one box.
  std::vector<Slice> boxes() const;
};

struct LayerSpec {
  std::string name = {};                   // key of its random numbers
  std::optional<std::string> prefix = {};  // prefix of full names of parameters; none: name
  std::vector<std::string> reads = {"hidden"};
  std::vector<std::string> writes = {"hidden"};
  // Allocates the module. Parameters need not be initialised: weights are loaded or drawn
  // afterwards by full name. Decides device, dtype and, by requires_grad, what is frozen: none of
  // these may change later. Called only on the rank that owns the layer. Empty: a layer without
  // parameters.
  std::function<std::shared_ptr<torch::nn::Module>()> make = {};
  // Runs the module: inputs in the order of `reads`, outputs in the order of `writes`; an output
  // may be undefined (an optional value). May write to an input as autograd allows, never to an
  // input of the batch.
  std::function<std::vector<at::Tensor>(torch::nn::Module&, const std::vector<at::Tensor>&)>
      forward = {};
  // Output metas from input metas; empty function: unknown, sizes travel in headers.
  std::function<std::vector<TensorMeta>(const std::vector<TensorMeta>&)> shapes = {};
  // {name inside the module, full name of the first use} of every parameter with an earlier use.
  std::vector<std::pair<std::string, std::string>> ties = {};
  // {name inside the module, the part that this rank holds} of every divided parameter. A
  // SlicedModule inside declares its own.
  std::vector<std::pair<std::string, ParameterSlices>> slices = {};
  // Draws the initial value of one of its parameters in place. name: inside the module; key: the
  // full name that keys the random numbers (of the first use, if tied). Empty function: normal(0,
  // 0.02) for two or more dimensions, ones for vectors named "weight", zeros for vectors whose name
  // ends with "bias"; anything else keeps the value from `make`. value is always whole: a rank that
  // holds a slice takes it out afterwards.
  std::function<void(const std::string& name, const std::string& key, at::Tensor& value,
                     std::uint64_t seed)>
      initialize = {};
  // For the plan: the role of the layer in a split, and its cost. Without a cost, describe()
  // (model.h) measures it.
  LayerRole role = LayerRole::kBlock;
  std::optional<LayerCost> cost = {};
  std::string class_name = {};  // class of the module, where known before `make`
  // The forward keeps only its inputs, and runs again in the backward. Set by build_stages() as the
  // plan says (PipelineOptions::activation_checkpoint).
  bool recompute = false;
  // Its random numbers continue those of the layer before it, instead of having their own key; it
  // stands for num_layers layers of the model. Set by build_stages() for what Model::fuse gives.
  bool continues = false;
  int num_layers = 1;
  // Its name in messages, where `name` is not enough; empty: "layer 'NAME'".
  std::string shown_as = {};

  // The full name of a parameter or buffer, from its name inside the module.
  std::string full_name(const std::string& inside) const {
    const std::string& start = prefix ? *prefix : name;
    return start.empty() ? inside : start + "." + inside;
  }
};

// A layer of one module, with named values as in losses and from_module(). make() returns the
// module, a pointer or holder; forward(M&, const Values& in) runs it: `in` has the values that the
// layer reads, the result is a tensor, for a layer that writes one value, or Values with all that
// it writes.
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

// ---- random numbers that do not depend on the layout: functions of (seed, step, layer,
// microbatch) in forwards and of (seed, parameter name, element) for initial weights ----

// Within this scope every operator that would draw from the default generator (dropout, rand,
// bernoulli, attention dropout, ...) draws from the stream of this key instead, on this thread, in
// unchanged user code; a generator that the caller passes is respected. CPU and CUDA; each device
// has its own stream. Scopes nest: the inner key holds, then the outer stream continues where
// it was. Costs well under a microsecond until something random is called. A scope must end on the
// thread that entered it. Nothing is keyed in backward: a function of your own that computes its
// forward again there must save its random numbers.
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

// Fills a floating-point tensor with normal(mean, std), element i (in row-major order) being a
// function of (seed, name, offset + i) alone, so any slice can be drawn by itself: the same bits on
// every machine and device, for every number of threads. float32 and float64 are rounded from one
// double; other types from the float32. In place, no autograd. Throws Error(kInternal) for other
// dtypes or a negative offset.
void keyed_normal_(at::Tensor& tensor, std::uint64_t seed, std::string_view name, double mean,
                   double std, std::int64_t offset = 0);

}  // namespace sluice
