// Defines what is trained: layers in order, their inputs and outputs, and a loss.
//
//     sluice::Model model = sluice::from_sequential(net);
//     model.inputs = {"x", "y"};
//     model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
//       return torch::mse_loss(out["hidden"], in["y"]);
//     });
//
// A model made by from_sequential() holds the given modules; other models hold factories. Ranks
// that are threads share a model and call its functions concurrently.
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

// Maps outputs and batch to the sum of the microbatch's token losses and their count.
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

// A further loss that layers compute, such as that of an expert router. Its value is one number,
// the mean over a microbatch, and no layer reads it. It weighs as the mean loss does, times
// `scale`.
struct AuxiliaryLoss {
  std::string value;  // name, or pattern with '*' and '?'
  double scale = 1.0;
};

// The sum of count_labels() over all rows of integer labels [batch, length].
std::int64_t count_tokens(const at::Tensor& labels_BL);

// Draws initial values with one of two functions, without autograd. Draws from torch's default
// generator are keyed by seed and name, so every layout gets the same bits. Parameters are passed
// whole and sliced afterwards.
struct Initialization {
  // Sets a parameter (a tied one once, by its first use) or buffer, by full name.
  std::function<void(const std::string& name, at::Tensor& value)> tensor;
  // Sets a module's own parameters and buffers, by full name. A ColumnParallelLinear is passed as a
  // Linear. Refused for a module whose parameters are on several stages.
  std::function<void(const std::string& name, torch::nn::Module& module)> module;
  // Advice in the error about a parameter that no function fills.
  std::string remedy =
      "load weights, or set LayerSpec::initialize or Model::initialization to fill it";

  bool is_given() const { return tensor || module; }
};

struct Model {
  std::vector<LayerSpec> layers = {};
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};  // values of the last layer that the loss reads
  LossFunction loss = {};
  // Number that the loss will count in a microbatch. Called on every rank before the forward.
  // Empty: count_rows().
  std::function<std::int64_t(const Values& batch)> count = {};
  std::vector<AuxiliaryLoss> auxiliary = {};
  // Replaces LayerSpec::initialize.
  Initialization initialization = {};
  // Replaces consecutive layers of a stage by one with the same parameter names, which writes
  // `leaving`, the values that leave the stage.
  std::function<LayerSpec(const std::vector<LayerSpec>& layers,
                          const std::vector<std::string>& leaving)>
      fuse = {};
  // Inputs that a batch may omit; layers then read an undefined tensor.
  std::vector<std::string> optional_inputs = {};
  // Layers without parameters that depend only on the batch and constants, such as masks. Every
  // stage that reads their values runs them, so these values are never sent.
  std::vector<LayerSpec> free_layers = {};
  // Sizes and costs for the plan, if known. Empty: describe(layers).
  std::shared_ptr<const ModelSpec> description = {};
  // The model for evaluations, if its layers differ. Then `description` has an evaluation, too.
  std::shared_ptr<const Model> evaluation = {};
};

// Whether a child derived from Sequential becomes one layer, or one for each of its children
// ("2.0").
enum class Nested { kWhole, kExpanded };

// Makes each child of `net` one layer that maps one tensor to the next. The first layer reads the
// batch's `input`; other values are "hidden". Layers hold the children, so `net` has the trained
// weights. A child that shares parameters with an earlier child is cloned and tied, and `net` does
// not get the clone's buffers. Throws Error(kUsage) for an empty `net` or a child that cannot be
// cloned.
Model from_sequential(const torch::nn::Sequential& net, const std::string& input = "x",
                      Nested nested = Nested::kWhole);

// Same, for the children of a module, all of class Block, each run by `call`. Also throws
// Error(kUsage) for a child of another class.
//
//     from_children<BlockImpl>(*net->blocks, [](BlockImpl& block, const at::Tensor& x) {
//       return block.forward(x, 0.5); });
template <typename Block>
Model from_children(const torch::nn::Module& parent,
                    const std::function<at::Tensor(Block&, const at::Tensor&)>& call,
                    const std::string& input = "x");

// An operator of exported graphs that LibTorch lacks. `call` maps the node's arguments to its
// result tensors.
struct GraphOperator {
  std::string name;  // "sluice::my_op", or "sluice::my_op.out" with an overload
  std::function<std::vector<at::Tensor>(const std::vector<c10::IValue>&)> call;
  bool is_random = false;  // draws from the default generator
};

struct GraphModelOptions {
  std::string layer_class = {};           // class of the blocks; "": elements of lists
  std::vector<std::string> modules = {};  // more modules that become layers
  std::string loss_output = {};           // "": as the archive states, else causal loss of "logits"
  std::string products = {};              // type of RunOptions::autocast ("bfloat16") for the plan
  std::vector<GraphOperator> operators = {};
  // Microbatch sizes for the description, or by name: {{"decoder_length", 64}}. 0: as exported.
  std::int64_t rows = 0, length = 0;
  std::map<std::string, std::int64_t> sizes = {};
};

// Loads an exported graph (docs/any-model.md). Inputs have the names of the exported arguments; a
// causal loss also reads "labels". Throws Error(kInput) for another kind of file or unknown
// operators, and Error(kUsage) for names that the graph does not have.
Model load_graph(const std::string& path, const GraphModelOptions& options = {});

// Rows of a batch: the first size of its first tensor with dimensions, or 0.
std::int64_t count_rows(const Values& batch);

// Uses an output as the loss: one number, the mean over the rows of a microbatch.
LossFunction loss_output(const std::string& output,
                         std::function<std::int64_t(const Values& batch)> rows = {});

// Converts a mean over the rows of a microbatch, as torch's losses compute it, to a sum, so that
// the step's loss is the mean over all rows. If `rows` counts another unit, Model::count must count
// it too.
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

// Measures a description. Runs one layer at a time, with drawn weights, forward and backward, on
// batches of these sizes and of twice the rows (integers 0, floats 1). Buffers change.
//
// FLOPs count matrix products, convolutions and attention; a backward counts one product for each
// operand that needs a gradient. Bytes count memory that stays allocated for the backward, without
// parameters and gradient sums. Both are linear in rows. Kernels of parts/ops.h are not counted, so
// describe native families with LayerOptions::fused = false. A layer with a cost and `shapes` is
// not run.
//
// Throws what layers throw, and Error(kUsage) for batches without rows or a value that no layer
// writes. Must not run on a thread whose memory a ledger counts.
ModelSpec describe(const std::vector<LayerSpec>& layers, const BatchMetas& batch);

// Describes layers without making them: enough for a program, but not to predict memory.
ModelSpec describe(const std::vector<LayerSpec>& layers);

}  // namespace sluice
