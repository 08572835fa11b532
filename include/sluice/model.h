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
  at::Tensor loss;         // sum over the counted tokens, a scalar with a graph
  std::int64_t count = 1;  // number of counted tokens
};

// Maps the last chunk's outputs and the microbatch's inputs to the sum of its token losses and
// their count. Wraps any such function, or none.
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

// A further loss that layers compute, such as that of an expert router. It is a value that no layer
// reads: one number, the mean over a microbatch. It weighs as the microbatch's mean loss does,
// times `scale`.
struct AuxiliaryLoss {
  std::string value;  // name, or pattern with '*' and '?'
  double scale = 1.0;
};

// The sum of count_labels() over all rows of integer labels [batch, length].
std::int64_t count_tokens(const at::Tensor& labels_BL);

// Draws initial values with one of two functions. They run without autograd on the rank that has
// the parameter. Draws from torch's default generator (torch::nn::init) are keyed by seed and name,
// so every layout gets the same bits. Each parameter is passed whole and sliced afterwards.
struct Initialization {
  // Sets one parameter or buffer, by full name. A tied parameter is set once, by its first use.
  std::function<void(const std::string& name, at::Tensor& value)> tensor;
  // Sets the own parameters and buffers of one module, by full name. module.as<torch::nn::Linear>()
  // tests the class; a ColumnParallelLinear is passed as a Linear. Tied parameters get the value of
  // their first use. Refused for a module whose parameters are on several stages.
  std::function<void(const std::string& name, torch::nn::Module& module)> module;
  // Advice in the error about a parameter that no function fills.
  std::string remedy =
      "load weights, or set LayerSpec::initialize or Model::initialization to fill it";

  bool is_given() const { return tensor || module; }
};

struct Model {
  std::vector<LayerSpec> layers = {};
  std::vector<std::string> inputs = {};   // names of the values in a batch
  std::vector<std::string> outputs = {};  // values of the last layer that the loss reads
  LossFunction loss = {};
  // Number that the loss will count in a microbatch. Called on every rank before the forward.
  // Empty: count_rows().
  std::function<std::int64_t(const Values& batch)> count = {};
  std::vector<AuxiliaryLoss> auxiliary = {};
  // Replaces LayerSpec::initialize.
  Initialization initialization = {};
  // Fuses consecutive layers of a stage into one layer with the same parameter names. It must write
  // `leaving`, the values that leave the stage. Empty: no fusion.
  std::function<LayerSpec(const std::vector<LayerSpec>& layers,
                          const std::vector<std::string>& leaving)>
      fuse = {};
  // Inputs that a batch may omit. Layers that read them then get an undefined tensor.
  std::vector<std::string> optional_inputs = {};
  // Layers without parameters or random numbers that depend only on the batch and constants, such
  // as masks. Every stage that reads their values runs them first, so these values are never sent.
  std::vector<LayerSpec> free_layers = {};
  // What the plan uses if the model knows its sizes and costs. Empty: describe(layers).
  std::shared_ptr<const ModelSpec> description = {};
  // The model for evaluations, if its layers differ; it has the same parameter names. `description`
  // must then have an evaluation, too.
  std::shared_ptr<const Model> evaluation = {};
};

// Whether a child derived from Sequential becomes one layer, or (if it uses Sequential's forward)
// one layer for each of its children ("2.0", "2.1").
enum class Nested { kWhole, kExpanded };

// Makes each child of `net` one layer that maps one tensor to the next. The first layer reads the
// batch's `input`; the value between layers and the output is "hidden". Layers hold the children,
// so `net` has the trained weights afterwards. A child that shares parameters with an earlier child
// is cloned and tied; `net` does not get the clone's buffers. Throws Error(kUsage) for an empty
// `net` or a child that shares parameters but cannot be cloned.
Model from_sequential(const torch::nn::Sequential& net, const std::string& input = "x",
                      Nested nested = Nested::kWhole);

// Same, for the children of any module, all of class Block, in order of registration. `call` runs
// one. Also throws Error(kUsage) for a child of another class.
//
//     from_children<BlockImpl>(*net->blocks, [](BlockImpl& block, const at::Tensor& x) {
//       return block.forward(x, 0.5); });
template <typename Block>
Model from_children(const torch::nn::Module& parent,
                    const std::function<at::Tensor(Block&, const at::Tensor&)>& call,
                    const std::string& input = "x");

// An operator of exported graphs that LibTorch lacks. `call` takes the node's arguments as written
// and returns all its result tensors.
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
  // Microbatch sizes for the description, also by their names in the archive: {{"decoder_length",
  // 64}}. 0: as exported.
  std::int64_t rows = 0, length = 0;
  std::map<std::string, std::int64_t> sizes = {};
};

// Loads an exported graph (docs/any-model.md) with its own weights, or drawn ones if it has none.
// Inputs have the names of the exported arguments; a causal loss also reads "labels". Throws
// Error(kInput) for another kind of file or unknown operators, and Error(kUsage) for names that the
// graph does not have.
Model load_graph(const std::string& path, const GraphModelOptions& options = {});

// Rows of a batch: the first size of its first tensor with dimensions, or 0.
std::int64_t count_rows(const Values& batch);

// Uses an output of the model as the loss: one number, the mean over the rows of a microbatch.
LossFunction loss_output(const std::string& output,
                         std::function<std::int64_t(const Values& batch)> rows = {});

// Converts a mean over the rows of a microbatch, as torch's losses compute it, to a sum. The step's
// loss is then the mean over all rows. `rows` counts another unit, which Model::count must count
// too.
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
// batches of these sizes and of twice the rows (integers 0, floats 1).
//
// FLOPs count matrix products, convolutions and attention; a backward counts one product for each
// operand that needs a gradient. Bytes count memory that stays allocated for the backward, but no
// parameters and gradient sums. Both are linear in rows, for the given length. The loss belongs to
// no layer. Kernels of parts/ops.h are not counted, so describe native families with
// LayerOptions::fused = false. A layer with LayerSpec::cost keeps it, and is not run if it has
// `shapes`. In values, a first size that equals the batch's rows varies with them; all other sizes
// are fixed.
//
// Buffers such as running statistics change. Throws what layers throw, and Error(kUsage) for
// batches without rows or a value that no layer writes. Must not run on a thread whose memory a
// ledger counts.
ModelSpec describe(const std::vector<LayerSpec>& layers, const BatchMetas& batch);

// Describes names, roles, values, stated costs and ties without making a layer. Enough for a
// program, but not for a partition by cost or a memory prediction.
ModelSpec describe(const std::vector<LayerSpec>& layers);

}  // namespace sluice
