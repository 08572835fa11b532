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
#include <string>
#include <vector>

#include "sluice/layer.h"
#include "sluice/parts/loss.h"

namespace torch::nn {
class Sequential;
}

namespace sluice {

struct Model {
  std::vector<LayerSpec> layers;
  std::vector<std::string> inputs;   // names of the values of a batch
  std::vector<std::string> outputs;  // values behind the last layer that the loss reads
  LossFunction loss;
  // How much the loss will count in a microbatch, known before it runs: what its mean is divided
  // by. Empty: count_rows(). Called on every rank.
  std::function<std::int64_t(const Values& batch)> count;
  // Losses beside that of the outputs, on the stages of the layers that write them.
  std::vector<AuxiliaryLoss> auxiliary = {};
};

// The children of a torch::nn::Sequential, one layer each under its name. Every child is called
// with what the one before returned, one tensor; the first reads the batch's `input`. What crosses
// a cut is "hidden", which is also the output. Layers hold the children themselves, so that `net`
// has the trained weights afterwards; where a child shares a parameter with an earlier one, its
// layer is a clone (then tied: both change alike, and `net` shows it, but for the clone's buffers).
// Throws Error(kUsage) for an
// empty `net`, and for a child with shared parameters that cannot be cloned.
Model from_sequential(const torch::nn::Sequential& net, const std::string& input = "x");

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

}  // namespace sluice
