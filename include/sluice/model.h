// Defines a model: layers in order, inputs, outputs and a loss.
//
//     sluice::Model model = sluice::from_sequential(net);
//     model.inputs = {"x", "y"};
//     model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
//       return torch::mse_loss(out["hidden"], in["y"]);
//     });
//
// A model from from_sequential() uses the given modules themselves, so they have the
// trained weights afterwards. Other models make new modules on each rank.
// Ranks that are threads share a model and call its functions concurrently.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/layer.h"
#include "sluice/model_spec.h"
#include "sluice/parts/values.h"

namespace c10 {
struct IValue;
}
namespace torch::nn {
class Sequential;
}

namespace sluice {

struct LossValue {
  at::Tensor loss;  // sum over the counted tokens, a scalar with a graph
  std::int64_t count = 1;
};

// Returns the sum and count of the token losses of a microbatch.
class LossFunction {
 public:
  LossFunction() = default;
  LossFunction(std::nullptr_t) {}
  template <typename Function>
  requires(!std::same_as<std::remove_cvref_t<Function>, LossFunction>)
      LossFunction(Function function) {
    static_assert(std::is_invocable_v<Function&, const Values&, const Values&>,
                  "a loss takes (const sluice::Values& outputs, const sluice::Values& batch)");
    static_assert(
        std::is_convertible_v<std::invoke_result_t<Function&, const Values&, const Values&>,
                              LossValue>,
        "a loss returns a sluice::LossValue, the sum and the count; a function that returns a mean "
        "becomes one by sluice::mean_loss()");
    function_ = std::move(function);
  }

  explicit operator bool() const { return static_cast<bool>(function_); }
  LossValue operator()(const Values& outputs, const Values& batch) const {
    return function_(outputs, batch);
  }

 private:
  std::function<LossValue(const Values& outputs, const Values& batch)> function_;
};

// An additional loss that layers compute, such as an expert router's. The value is one number, the
// mean over a microbatch, and no layer reads it. The step's loss adds the value's mean times
// `scale`.
struct AuxiliaryLoss {
  std::string value;  // name, or pattern with '*' and '?'
  double scale = 1.0;
};

// Sums count_labels() over the rows of integer labels.
std::int64_t count_tokens(const at::Tensor& labels_BL);

// Draws initial values by tensor or by module, without autograd. torch's default generator is
// keyed by seed and name, so all layouts get equal bits. Parameters are sliced afterwards.
struct Initialization {
  // Sets a parameter (tied: its first use) or buffer, by full name.
  std::function<void(const std::string& name, at::Tensor& value)> tensor;
  // Sets a module's own parameters and buffers, by the module's full name. A ColumnParallelLinear
  // is passed as a Linear. A module whose own parameters are in parts that run
  // separately (on several stages) throws Error(kUsage).
  std::function<void(const std::string& name, torch::nn::Module& module)> module;
  // Shown in the error about a parameter that the function does not set.
  std::string remedy =
      "load weights, or set LayerSpec::initialize or Model::initialization to fill it";

  bool is_given() const { return tensor || module; }
};

struct Model {
  std::vector<LayerSpec> layers = {};
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};  // values of the last layer that the loss reads
  LossFunction loss = {};
  // Returns LossValue::count in advance, on every rank. Empty: count_rows().
  std::function<std::int64_t(const Values& batch)> count = {};
  std::vector<AuxiliaryLoss> auxiliary = {};
  // Replaces LayerSpec::initialize.
  Initialization initialization = {};
  // Optional, for speed. Returns one layer that replaces the given consecutive layers of a stage.
  // It must have the same parameter names and write `leaving`, the values that later layers or the
  // loss read.
  std::function<LayerSpec(const std::vector<LayerSpec>& layers,
                          const std::vector<std::string>& leaving)>
      fuse = {};
  // Inputs that a batch may omit. Layers then read undefined tensors.
  std::vector<std::string> optional_inputs = {};
  // Layers without parameters that depend only on the batch and constants, such as masks. Every
  // stage that reads their values runs them.
  std::vector<LayerSpec> free_layers = {};
  // Sizes and costs for the plan, if known. Empty: describe(layers).
  std::shared_ptr<const ModelSpec> description = {};
  // The model for evaluations, if its layers differ. `description` must then have an evaluation.
  std::shared_ptr<const Model> evaluation = {};
};

// Whether a Sequential inside a Sequential becomes one layer ("2"), or one layer per child of the
// inner one ("2.0", "2.1").
enum class Nested { kWhole, kExpanded };

// Makes each child of `net` a layer with one input and output. The first layer reads the batch's
// `input`. Layers exchange "hidden". They hold the children themselves, so `net` has the trained
// weights. A child that shares parameters with an earlier child is cloned and tied, and `net` does
// not get the clone's buffers. Throws Error(kUsage) for an empty `net` or a child that cannot be
// cloned.
Model from_sequential(const torch::nn::Sequential& net, const std::string& input = "x",
                      Nested nested = Nested::kWhole);

// Like from_sequential(), makes each child of `parent` (a Block) a layer, but runs it by `call`.
// Also throws Error(kUsage) for a child of another class.
//
//     from_children<BlockImpl>(*net->blocks, [](BlockImpl& block, const at::Tensor& x) {
//       return block.forward(x, 0.5); });
template <typename Block>
Model from_children(const torch::nn::Module& parent,
                    const std::function<at::Tensor(Block&, const at::Tensor&)>& call,
                    const std::string& input = "x");

// An operator of exported graphs that LibTorch lacks.
struct GraphOperator {
  std::string name;  // "sluice::my_op", or "sluice::my_op.out" with an overload
  std::function<std::vector<at::Tensor>(const std::vector<c10::IValue>&)> call;
  bool is_random = false;  // draws from the default generator
};

struct GraphModelOptions {
  std::string layer_class = {};  // class of the blocks; "": module list elements are blocks
  std::vector<std::string> modules = {};  // additional modules that become layers
  std::string loss_output = {};           // "": the file's loss, else next-token loss of "logits"
  std::string products = {};              // autocast dtype that the plan assumes ("bfloat16")
  std::vector<GraphOperator> operators = {};
  // Microbatch sizes for Model::description: the rows, the sequence length, and other dimensions by
  // name. 0 or absent: as exported. Example of `sizes`:
  // {{"decoder_length", 64}}.
  std::int64_t rows = 0, length = 0;
  std::map<std::string, std::int64_t> sizes = {};
};

// Loads an exported graph (docs/any-model.md). Inputs have the names of the exported arguments. A
// causal loss also reads "labels". Throws Error(kInput) for another kind of file or unknown
// operators, and Error(kUsage) for names that the graph does not have.
Model load_graph(const std::string& path, const GraphModelOptions& options = {});

// Returns the first size of the batch's first tensor that has dimensions, or 0.
std::int64_t count_rows(const Values& batch);

// Returns a loss function that uses `output`, a scalar mean over a microbatch's rows, as the loss.
// `rows` counts the rows (default: count_rows()).
LossFunction loss_output(const std::string& output,
                         std::function<std::int64_t(const Values& batch)> rows = {});

// Converts a mean over a microbatch's rows, as torch's losses compute it, to a sum, so that the
// step's loss is the mean over all rows. If `rows` counts another unit (such as tokens),
// Model::count must count that unit too.
LossFunction mean_loss(
    std::function<at::Tensor(const Values& outputs, const Values& batch)> mean_of_rows,
    std::function<std::int64_t(const Values& batch)> rows = {});

namespace detail {

using ChildCall = std::function<at::Tensor(torch::nn::Module& child, const at::Tensor& input)>;
Model from_children(const torch::nn::Module& parent, ChildCall call,
                    const std::function<bool(const torch::nn::Module&)>& is_block,
                    const std::string& input);

}  // namespace detail

template <typename Block>
Model from_children(const torch::nn::Module& parent,
                    const std::function<at::Tensor(Block&, const at::Tensor&)>& call,
                    const std::string& input) {
  return detail::from_children(
      parent,
      [call](torch::nn::Module& child, const at::Tensor& x) {
        return call(dynamic_cast<Block&>(child), x);
      },
      [](const torch::nn::Module& child) { return dynamic_cast<const Block*>(&child) != nullptr; },
      input);
}

// Inputs of a batch by name; the first size of each is the number of rows.
using BatchMetas = std::vector<std::pair<std::string, TensorMeta>>;

// Describes layers by running them one at a time, forward and backward, with random weights, on one
// batch of these sizes and one with twice the rows. Batches contain 0 (integers) or 1 (floats).
// Layers' buffers change.
// FLOPs count matrix products, convolutions and attention. A backward counts one product per
// operand that needs a gradient. Bytes count memory that stays allocated for the backward, without
// parameters and gradient sums. Both are fitted as linear in rows. Kernels of parts/ops.h are not
// counted, so describe native families with LayerOptions::fused = false. A layer with a cost and
// `shapes` is not run.
// Throws Error(kUsage) for batches without rows or a value that no layer writes. Must not run on a
// thread whose allocations a MemoryLedger counts.
ModelSpec describe(const std::vector<LayerSpec>& layers, const BatchMetas& batch);

// Describes layers without running them: enough for a program, but not to predict memory.
ModelSpec describe(const std::vector<LayerSpec>& layers);

}  // namespace sluice
