// The model that is trained: layers in order, the values that enter and leave them, and a loss.
//
// A Model of factories holds no weights. A Model of from_sequential() holds the given modules with
// their weights.
// Thread-safety: a Model is a value; ranks that are threads may share it, and its functions are
// then called on all of their threads.
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

// The loss that the last stage makes of its outputs: the sum over counted tokens and their number.
struct LossValue {
  at::Tensor loss;         // scalar with a graph, where backward starts
  std::int64_t count = 1;  // number of counted tokens in the sum
};

// (const Values& outputs, const Values& batch) -> LossValue. outputs: values of the last chunk;
// batch: inputs of the microbatch ("labels", ...). Returns the *sum* of the token losses of the
// microbatch and the number of counted tokens. Holds any such function, or none.
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

// A loss beside the loss of the outputs, on the stage that computes it: of a router of experts, of
// further prediction heads, of a distillation. It is a value that layers write and none reads: one
// number, the mean over a microbatch. It has the weight of the microbatch's mean loss, times
// `scale`.
struct AuxiliaryLoss {
  std::string value;   // its name, or with '*' and '?' a pattern: one value of every layer
  double scale = 1.0;  // factor in the loss that a step differentiates and reports
};

// The sum of count_labels (data.h) over all rows. labels_BL: integers [batch, length], aligned with
// the ids.
std::int64_t count_tokens(const at::Tensor& labels_BL);

// Draws initial values, by one of two functions. Called for what is on this rank, without autograd;
// draws from torch's default generator (torch::nn::init::xavier_uniform_, normal_, ..) are keyed by
// seed and name, so that the bits are the same in every layout.
struct Initialization {
  // Sets the value of every parameter and buffer, by its full name; of a tied parameter once, by
  // the name of its first use. value is whole: a slice is taken out of it afterwards.
  std::function<void(const std::string& name, at::Tensor& value)> tensor;
  // Sets the values of every module that has parameters or buffers of its own, by its full name;
  // module.as<torch::nn::Linear>() tests its class. Parameters are whole: a slice is taken out of
  // each afterwards, so a ColumnParallelLinear is drawn as a Linear is. A tied parameter has the
  // value of its first use. A module whose own parameters are on several stages is refused.
  std::function<void(const std::string& name, torch::nn::Module& module)> module;
  // What the error about a parameter that nothing fills tells the user to do.
  std::string remedy =
      "load weights, or set LayerSpec::initialize or Model::initialization to fill it";

  bool is_given() const { return tensor || module; }
};

struct Model {
  std::vector<LayerSpec> layers = {};
  std::vector<std::string> inputs = {};   // names of the values in a batch
  std::vector<std::string> outputs = {};  // values of the last layer that the loss reads
  LossFunction loss = {};
  // The number that the loss will count in a microbatch, known before it runs: the divisor of its
  // mean. Empty: count_rows(). Called on every rank.
  std::function<std::int64_t(const Values& batch)> count = {};
  // Further losses, on the stages of the layers that write them.
  std::vector<AuxiliaryLoss> auxiliary = {};
  // Draws initial values in place of LayerSpec::initialize.
  Initialization initialization = {};
  // Makes one layer that runs in place of the consecutive layers of a stage, with the full names of
  // their parameters; of the values that leave the stage it writes those that they write. Empty:
  // layers run one by one.
  std::function<LayerSpec(const std::vector<LayerSpec>& layers,
                          const std::vector<std::string>& leaving)>
      fuse = {};
  // Those of `inputs` that a batch may leave out: layers that read one get an undefined tensor.
  std::vector<std::string> optional_inputs = {};
  // Layers that depend on the batch and on constants alone (masks, rotary tables), in order: they
  // have no parameters and draw nothing. Every stage that reads what they write runs them first, so
  // that it never crosses a cut (ModelSpec::free_layers).
  std::vector<LayerSpec> free_layers = {};
  // The description that is planned, where the model knows its sizes and costs. Empty:
  // describe(layers).
  std::shared_ptr<const ModelSpec> description = {};
  // The model that evaluations run, if its layers differ (then `description` must have it too). Its
  // parameters and buffers are those of the same full names in `layers`.
  std::shared_ptr<const Model> evaluation = {};
};

// The layers of a child whose class derives from torch::nn::Sequential's: one layer, or, if its
// forward is Sequential's, the layers of its children ("2.0", "2.1").
enum class Nested { kWhole, kExpanded };

// The children of a torch::nn::Sequential, one layer each under its name. Every child is called
// with the one tensor that the child before returned; the first reads the batch's `input`. The
// value that crosses a cut is "hidden", which is also the output. Layers hold the children
// themselves, so that `net` has the trained weights afterwards; where a child shares a parameter
// with an earlier one, its layer is a clone (then tied: both change alike, and `net` shows it, but
// for the clone's buffers). Throws Error(kUsage) for an empty `net`, and for a child with shared
// parameters that cannot be cloned.
Model from_sequential(const torch::nn::Sequential& net, const std::string& input = "x",
                      Nested nested = Nested::kWhole);

// The same for the children of any module (`*list` of a ModuleList or ModuleDict), all of class
// Block, in the order of their registration, each called by `call`. Throws Error(kUsage) for a
// child of another class, too.
//   from_children<BlockImpl>(*net->blocks, [](BlockImpl& block, const at::Tensor& x) {
//     return block.forward(x, 0.5); });
template <typename Block>
Model from_children(const torch::nn::Module& parent,
                    const std::function<at::Tensor(Block&, const at::Tensor&)>& call,
                    const std::string& input = "x");

// An operator of exported graphs that LibTorch does not have. It takes the arguments of the node,
// as written: tensors, numbers, texts, none, and lists of them. It returns all tensors that are
// results of the node.
struct GraphOperator {
  std::string name;  // "sluice::my_op", or with an overload "sluice::my_op.out"
  std::function<std::vector<at::Tensor>(const std::vector<c10::IValue>&)> call;
  bool is_random = false;  // draws, from the default generator
};

struct GraphModelOptions {
  std::string layer_class = {};           // class of the blocks; "": the elements of lists
  std::vector<std::string> modules = {};  // further layers, to cut between or to run twice
  std::string loss_output = {};  // the result that is the loss; "": what the archive says, else the
                                 // causal loss of "logits"
  std::string products = {};     // type of RunOptions::autocast, "bfloat16", for the plan
  std::vector<GraphOperator> operators = {};
  // Sizes of the microbatches that the model's description is for; 0: as exported. Other sizes by
  // their names in the archive: {{"decoder_length", 64}}.
  std::int64_t rows = 0, length = 0;
  std::map<std::string, std::int64_t> sizes = {};
};

// An exported graph (docs/any-model.md). Its weights are those of the archive, else drawn; those of
// a Hugging Face directory by Model::initialization.tensor = stored_values(directory). Inputs have
// the names of the exported model's arguments; a causal loss of "logits" reads "labels" too. Throws
// Error(kInput) for a file that is not such an archive, or has operators that neither LibTorch nor
// options.operators has, naming them; Error(kUsage) for names that the graph does not have.
Model load_graph(const std::string& path, const GraphModelOptions& options = {});

// Number of rows of a batch: the first size of its first tensor that has dimensions; 0 without one.
std::int64_t count_rows(const Values& batch);

// The loss of a model that returns it: the output of this name, one number, the mean over the rows
// of a microbatch (as in mean_loss()).
LossFunction loss_output(const std::string& output,
                         std::function<std::int64_t(const Values& batch)> rows = {});

// A loss written as the mean over the rows of a microbatch, as torch's functions give it. Its sum
// is the mean times the rows of the batch (count_rows): so microbatches weigh by their rows, and
// the step's loss is the mean over all rows.
// rows: the number that the mean is over, if it is something else; Model::count must then be the
// same.
LossFunction mean_loss(
    std::function<at::Tensor(const Values& outputs, const Values& batch)> mean_of_rows,
    std::function<std::int64_t(const Values& batch)> rows = {});

namespace detail {

using ChildCall = std::function<at::Tensor(torch::nn::Module& child, const at::Tensor& input)>;
// is_block: true for a child of the class that `call` takes.
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

// A batch's inputs by name; the first size of each is the number of rows.
using BatchMetas = std::vector<std::pair<std::string, TensorMeta>>;

// The description that is measured: makes one layer after the other, draws its weights, and runs it
// as a stage of its own, forward and backward, on batches of these metas and of twice the rows
// (integers are 0, floats 1).
//
//  parameters  named as in Chunk; frozen ones too.
//  writes      sizes; the first is the rows of the microbatch where it equals the rows of the
//              metas, all others are fixed. An undefined value has no elements.
//  cost        LayerSpec::cost if given (then a layer with a shape function is not run), else a
//              line in rows through the two runs, for the length of these metas. FLOPs: products of
//              matrices, convolutions and attention of the forward; of the backward, one product
//              for each operand that needs a gradient, a parameter's being the weight's. Bytes:
//              memory that LibTorch's allocators handed out in the layer and did not get back:
//              tensors saved for the backward, input and output where they are saved, never
//              parameters and accumulators. The loss belongs to no layer. Products inside fused
//              operators (parts/ops.h) are not counted: native families are described with
//              LayerOptions::fused off.
//  roles       LayerSpec::role.
//
// Runs the modules: buffers such as running statistics change. Never holds more than one layer.
// Batch inputs are on the device of the layer's parameters. Throws what layers throw, and
// Error(kUsage) for metas without rows or a value that nobody writes. Must not be called on a
// thread whose memory a ledger counts.
ModelSpec describe(const std::vector<LayerSpec>& layers, const BatchMetas& batch);

// The description without making or running anything: names, roles, values that layers read and
// write, stated costs, and the parameters that LayerSpec::ties names. Sizes are not known, so this
// is enough for a partition by counts or names and for its program, not for a prediction of memory.
ModelSpec describe(const std::vector<LayerSpec>& layers);

}  // namespace sluice
