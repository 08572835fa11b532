// What is trained: layers in order, what enters and leaves them, and a loss.
//
// Owns: Model, its loss and initial values, ways to make one of your own modules, describe().
// Does not own: what a layer is (layer.h), the models of Hugging Face families (causal_lm.h), where
// a layer goes (plan.h). A Model of factories holds no weights; from_sequential()'s are those of
// the modules that it was given.
// Thread-safety: a Model is a value; ranks that are threads may share one, whose functions are then
// called on all of their threads.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  at::Tensor loss;         // scalar with a graph: what backward starts from
  std::int64_t count = 1;  // counted tokens behind it
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

// A loss beside that of the outputs, on whatever stage computes it: of a router of experts, of
// further prediction heads, of a distillation. A value that layers write and none reads: one
// number, the mean over a microbatch. It weighs as the mean loss of the microbatch does, times
// `scale`.
struct AuxiliaryLoss {
  std::string value;   // its name; with '*' and '?' a pattern, as for one of every layer
  double scale = 1.0;  // in the loss that a step differentiates and reports
};

// As count_labels, of every row. labels_BL: integers [batch, length], aligned with the ids.
std::int64_t count_tokens(const at::Tensor& labels_BL);

// Called for what is on this rank, without autograd; what it draws from torch's default generator
// (torch::nn::init::xavier_uniform_, normal_, ..) is keyed by seed and name, so that the bits are
// the same in every layout. One of the two.
struct Initialization {
  // The value of every parameter and buffer, by its full name; a tied parameter once, by that of
  // its first use. value is whole: a slice is taken out of it afterwards.
  std::function<void(const std::string& name, at::Tensor& value)> tensor;
  // The values of every module that has parameters or buffers of its own, by its full name; of
  // which class it is says module.as<torch::nn::Linear>(). A tied parameter has the value of its
  // first use. A module whose own parameters are on several stages is refused.
  std::function<void(const std::string& name, torch::nn::Module& module)> module;

  bool is_given() const { return tensor || module; }
};

struct Model {
  std::vector<LayerSpec> layers = {};
  std::vector<std::string> inputs = {};   // names of the values of a batch
  std::vector<std::string> outputs = {};  // values behind the last layer that the loss reads
  LossFunction loss = {};
  // How much the loss will count in a microbatch, known before it runs: what its mean is divided
  // by. Empty: count_rows(). Called on every rank.
  std::function<std::int64_t(const Values& batch)> count = {};
  // Losses beside that of the outputs, on the stages of the layers that write them.
  std::vector<AuxiliaryLoss> auxiliary = {};
  // Draws initial values in place of LayerSpec::initialize.
  Initialization initialization = {};
  // Makes the one layer that runs in place of the consecutive layers of a stage, under their
  // parameters' full names; it writes those of the values that leave the stage which they write.
  // Empty: layers run one by one.
  std::function<LayerSpec(const std::vector<LayerSpec>& layers,
                          const std::vector<std::string>& leaving)>
      fuse = {};
  // Those of `inputs` that a batch may leave out: layers that read one get an undefined tensor.
  std::vector<std::string> optional_inputs = {};
  // Layers that depend on the batch and on constants alone (masks, rotary tables), in order: they
  // have no parameters and draw nothing. Every stage that reads what they write runs them first, so
  // that it never crosses a cut (ModelSpec::free_layers).
  std::vector<LayerSpec> free_layers = {};
  // What is planned, where the model knows it: sizes and costs too. Empty: describe(layers).
  std::shared_ptr<const ModelSpec> description = {};
};

// The layers of a child whose class derives from torch::nn::Sequential's: one layer, or where its
// forward does what Sequential's does, the layers of its children ("2.0", "2.1").
enum class Nested { kWhole, kExpanded };

// The children of a torch::nn::Sequential, one layer each under its name. Every child is called
// with what the one before returned, one tensor; the first reads the batch's `input`. What crosses
// a cut is "hidden", which is also the output. Layers hold the children themselves, so that `net`
// has the trained weights afterwards; where a child shares a parameter with an earlier one, its
// layer is a clone (then tied: both change alike, and `net` shows it, but for the clone's buffers).
// Throws Error(kUsage) for an empty `net`, and for a child with shared parameters that cannot be
// cloned.
Model from_sequential(const torch::nn::Sequential& net, const std::string& input = "x",
                      Nested nested = Nested::kWhole);

// The same of the children of any module (`*list` of a ModuleList or ModuleDict), all of class
// Block, in the order of their registration, each called by `call`. Throws Error(kUsage) for a
// child of another class, too.
//   from_children<BlockImpl>(*net->blocks, [](BlockImpl& block, const at::Tensor& x) {
//     return block.forward(x, 0.5); });
template <typename Block>
Model from_children(const torch::nn::Module& parent,
                    const std::function<at::Tensor(Block&, const at::Tensor&)>& call,
                    const std::string& input = "x");

// An operator of exported graphs that LibTorch does not have. Its arguments are those of the node,
// as written: tensors, numbers, texts, none, and lists of them. It returns all tensors that the
// node has as results.
struct GraphOperator {
  std::string name;  // "sluice::my_op", or with an overload "sluice::my_op.out"
  std::function<std::vector<at::Tensor>(const std::vector<c10::IValue>&)> call;
  bool is_random = false;  // draws, from the default generator
};

struct GraphModelOptions {
  std::string layer_class = {};           // of the blocks; "": the elements of lists
  std::vector<std::string> modules = {};  // further layers: where it is cut, what runs twice
  std::string loss_output = {};  // the result that is the loss; "": what the archive says, else the
                                 // causal loss of "logits"
  std::string products = {};     // of RunOptions::autocast, "bfloat16", for the plan
  std::vector<GraphOperator> operators = {};
  // Sizes of the microbatches that the model's description is for; 0: as exported.
  std::int64_t rows = 0, length = 0;
};

// An exported graph (docs/any-model.md). Its weights are those of the archive, else drawn; those of
// a Hugging Face directory by Model::initialization.tensor = stored_values(directory). Inputs have
// the names of the exported model's arguments; a causal loss of "logits" reads "labels" too. Throws
// Error(kInput) for a file that is no such archive, or has operators that neither LibTorch nor
// options.operators has, naming them; Error(kUsage) for names that the graph does not have.
Model load_graph(const std::string& path, const GraphModelOptions& options = {});

// The rows of a batch: the first size of its first tensor that has one; 0: it has none.
std::int64_t count_rows(const Values& batch);

// For a model that returns its loss: the output of this name, one number, the mean over the rows of
// a microbatch (as mean_loss()).
LossFunction loss_output(const std::string& output,
                         std::function<std::int64_t(const Values& batch)> rows = {});

// A loss written as the mean over the rows of a microbatch, as torch's functions give it. Its sum
// is the mean times the rows of the batch's first input that has a size: so microbatches weigh by
// their rows, and the step's loss is the mean over all rows.
// rows: how many the mean is over, where that is something else; then Model::count has to say the
// same.
LossFunction mean_loss(
    std::function<at::Tensor(const Values& outputs, const Values& batch)> mean_of_rows,
    std::function<std::int64_t(const Values& batch)> rows = {});

namespace detail {

using ChildCall = std::function<at::Tensor(torch::nn::Module& child, const at::Tensor& input)>;
// is_block: of the class that `call` takes.
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

// Makes one layer after the other, draws its weights, and runs it as a stage of its own, forward
// and backward, on batches of these metas and of twice the rows (integers are 0, floats 1).
//
//  parameters  as Chunk names them; frozen ones too.
//  writes      sizes with the rows of the microbatch where the first size is that of the rows; all
//              others are those of these metas. A value that was not there has no elements.
//  cost        LayerSpec::cost if given (then a layer with a shape function is not run), else a
//              line in rows through the two runs, for the length of these metas. FLOPs: products of
//              matrices, convolutions and attention of the forward; of the backward, one product
//              for each operand that needs a gradient, a parameter's being the weight's. Bytes:
//              what LibTorch's allocators have handed out in the layer and not got back: what is
//              saved for the backward, input and output included where they are, never parameters
//              and accumulators. The loss is nobody's. Nodes of fused operators (parts/ops.h) do
//              their products unseen: native families are described with LayerOptions::fused off.
//  roles       LayerSpec::role.
//
// Runs the modules: buffers such as running statistics change. Never holds more than one layer.
// Batch inputs are on the device of the layer's parameters. Throws what layers throw, and
// Error(kUsage) for metas without rows or a value that nobody writes. Not for a thread whose memory
// a ledger counts.
ModelSpec describe(const std::vector<LayerSpec>& layers, const BatchMetas& batch);

// The description that layers give of themselves, with nothing made or run: names, roles, values
// that they read and write, stated costs, and of parameters those that LayerSpec::ties names. Sizes
// are not known, so this is enough for a partition by counts or names and for its program, not for
// a prediction of memory.
ModelSpec describe(const std::vector<LayerSpec>& layers);

}  // namespace sluice
