// The families that have modules, and the common parts of their layers.
//
// Owns: the table of families, LayerSpecs of one input and one output, Hugging Face's initial
// values. Does not own: configurations (plan), the modules' mathematics (decoder_layer.cpp,
// gpt2.cpp, modules.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "family/families.h"
#include "family/operators.h"
#include "model/head.h"
#include "model/modules.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice::detail {

// The modules of the row of family/families.h that has this name.
struct FamilyModules {
  std::string name;
  std::vector<LayerSpec> (*make)(const ModelSpec& model, const LayerOptions& options);
  // Model::auxiliary; null: none.
  std::vector<AuxiliaryLoss> (*auxiliary)(const ModelSpec& model) = nullptr;
};
const std::vector<FamilyModules>& family_modules();

std::vector<LayerSpec> make_gpt2_layers(const ModelSpec& model, const LayerOptions& options);
std::vector<LayerSpec> make_gpt_neox_layers(const ModelSpec& model, const LayerOptions& options);
std::vector<LayerSpec> make_starcoder2_layers(const ModelSpec& model, const LayerOptions& options);

// `norm` for weights of norms, zeros for biases, normal(0, std) for the rest, zeros for the padding
// row of the embedding.
struct InitialValues {
  std::function<double(const std::string& name)> std;  // by the weight's name inside the layer
  std::int64_t padding_row = -1;                       // -1: none
  double norm = 1.0;
};
// transformers means 0.02 where initializer_range is 0.
double initializer_std(double initializer_range);

// Name, prefix, values, shapes, ties and initialisation of the layer `info`.
LayerSpec describe_layer(const LayerInfo& info, const ModelSpec& model, const LayerOptions& options,
                         const InitialValues& initial);

// Its module comes without requires_grad where `info` says that a parameter is not trainable.
void freeze_as(const LayerInfo& info, LayerSpec& spec);

inline std::vector<at::Tensor> as_written(at::Tensor hidden) { return {std::move(hidden)}; }
inline std::vector<at::Tensor> as_written(std::vector<at::Tensor> written) { return written; }

// Makes `spec` run modules that `make` creates, each with `at::Tensor forward(const at::Tensor&)`,
// or with as many tensors as LayerSpec::reads has names; returns all that the layer writes,
// where that is more than one.
template <typename Make>
void set_module(LayerSpec& spec, Make make) {
  using Module = typename decltype(make())::element_type;
  spec.make = make;
  spec.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& inputs) {
    auto& of_layer = static_cast<Module&>(module);
    if constexpr (requires { of_layer.forward(inputs[0], inputs[1], inputs[2]); }) {
      return as_written(of_layer.forward(inputs[0], inputs[1], inputs[2]));
    } else if constexpr (requires { of_layer.forward(inputs[0], inputs[1]); }) {
      return std::vector<at::Tensor>{of_layer.forward(inputs[0], inputs[1])};
    } else {
      return std::vector<at::Tensor>{of_layer.forward(inputs[0])};
    }
  };
}

// The loss of causal_lm_loss(), with the gradient in the place of the logits.
LossValue fused_causal_lm_loss(const Values& outputs, const Values& batch);

// The loss of a head that computes it.
LossValue loss_of_head(const Values& outputs, const Values& batch);

// The layers of a family: each function after `initial` makes a module for set_module(), that of
// blocks from the number of the block.
template <typename MakeEmbedding, typename MakeBlock, typename MakeNorm>
std::vector<LayerSpec> assemble_layers(const ModelSpec& model, const LayerOptions& options,
                                       const InitialValues& initial, MakeEmbedding make_embedding,
                                       MakeBlock make_block, MakeNorm make_norm,
                                       const HeadConfig& head) {
  std::vector<LayerSpec> layers;
  std::int64_t num_blocks = 0;
  for (const LayerInfo& info : model.layers) {
    LayerSpec& spec = layers.emplace_back(describe_layer(info, model, options, initial));
    switch (info.role) {
      case LayerRole::kEmbedding:
        set_module(spec, make_embedding);
        break;
      case LayerRole::kBlock:
        set_module(spec, [make_block, layer = num_blocks++] { return make_block(layer); });
        break;
      case LayerRole::kNorm:
        set_module(spec, make_norm);
        break;
      case LayerRole::kHead:
        if (info.computes_loss()) {
          HeadConfig config = head;
          config.loss_by_blocks = info.loss_by_blocks;
          set_module(spec, [=] { return std::make_shared<LossHead>(config, options); });
        } else {
          set_module(spec, [=] { return std::make_shared<Head>(head, options); });
        }
        break;
      case LayerRole::kOther:
        throw Error(ErrorKind::kInternal, {.what = "layer '" + info.name + "' has no module"});
    }
  }
  return layers;
}

}  // namespace sluice::detail
