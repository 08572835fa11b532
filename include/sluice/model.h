// What is trained: layers in order, what enters and leaves them, and a loss.
//
// Owns: Model, ways to make one of modules of one's own, ways to write its loss.
// Does not own: what a layer is (layer.h), the models of Hugging Face families (causal_lm.h), where
// a layer goes (plan.h). A Model of factories holds no weights; from_sequential()'s are those of
// the modules that it was given.
// Thread-safety: a Model is a value; ranks that are threads may share one, whose functions are then
// called on all of their threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/layer.h"
#include "sluice/parts/initialization.h"
#include "sluice/parts/loss.h"

namespace torch::nn {
class Sequential;
}

namespace sluice {

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
  // Of the consecutive layers of a stage: the one layer that runs in their place, under their
  // parameters' full names; it writes those of the values that leave the stage which they write.
  // Empty: layers run one by one.
  std::function<LayerSpec(const std::vector<LayerSpec>& layers,
                          const std::vector<std::string>& leaving)>
      fuse = {};
  // Those of `inputs` that a batch may leave out: layers that read one get an undefined tensor.
  std::vector<std::string> optional_inputs = {};
};

// The children of a torch::nn::Sequential, one layer each under its name. Every child is called
// with what the one before returned, one tensor; the first reads the batch's `input`. What crosses
// a cut is "hidden", which is also the output. Layers hold the children themselves, so that `net`
// has the trained weights afterwards; where a child shares a parameter with an earlier one, its
// layer is a clone (then tied: both change alike, and `net` shows it, but for the clone's buffers).
// nested: what becomes of a child whose class derives from torch::nn::Sequential's: one layer, or
// where its forward does what Sequential's does, the layers of its children ("2.0", "2.1").
// Throws Error(kUsage) for an empty `net`, and for a child with shared parameters that cannot be
// cloned.
enum class Nested { kWhole, kExpanded };
Model from_sequential(const torch::nn::Sequential& net, const std::string& input = "x",
                      Nested nested = Nested::kWhole);

// The same of the children of any module (`*list` of a ModuleList or ModuleDict), all of class
// Block, in the order of their registration, each called by `call`. Throws Error(kUsage) for a
// child of another class, too.
//   from_children<BlockImpl>(*net->blocks,
//                            [](BlockImpl& block, const at::Tensor& x) { return block.forward(x,
//                            0.5); });
template <typename Block>
Model from_children(const torch::nn::Module& parent,
                    const std::function<at::Tensor(Block&, const at::Tensor&)>& call,
                    const std::string& input = "x");

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

}  // namespace sluice
