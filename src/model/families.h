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

struct FamilyModules {
  std::string name;
  std::vector<LayerSpec> (*make)(const ModelSpec& model, const LayerOptions& options);
  std::vector<AuxiliaryLoss> (*auxiliary)(const ModelSpec& model) = nullptr;
};
const std::vector<FamilyModules>& family_modules();

std::vector<LayerSpec> make_gpt2_layers(const ModelSpec& model, const LayerOptions& options);
std::vector<LayerSpec> make_gpt_neox_layers(const ModelSpec& model, const LayerOptions& options);
std::vector<LayerSpec> make_starcoder2_layers(const ModelSpec& model, const LayerOptions& options);

// Initial values: `norm` for norm weights, 0 for biases and the embedding's padding row, normal(0,
// std) for other weights.
struct InitialValues {
  std::function<double(const std::string& name)> std;  // by name in the layer
  std::int64_t padding_row = -1;                       // -1 if none
  double norm = 1.0;
};
// Returns 0.02 for 0, as transformers does.
double initializer_std(double initializer_range);

LayerSpec describe_layer(const LayerInfo& info, const ModelSpec& model, const LayerOptions& options,
                         const InitialValues& initial);

void freeze_as(const LayerInfo& info, LayerSpec& spec);

inline std::vector<at::Tensor> as_written(at::Tensor hidden) { return {std::move(hidden)}; }
inline std::vector<at::Tensor> as_written(std::vector<at::Tensor> written) { return written; }

// Makes `spec` run the modules that `make` creates. forward() takes the tensors of
// LayerSpec::reads, and returns a tensor or a vector.
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

// causal_lm_loss(), but its gradient overwrites the logits.
LossValue fused_causal_lm_loss(const Values& outputs, const Values& batch);

LossValue loss_of_head(const Values& outputs, const Values& batch);

// Each `make_` argument makes a module. make_block gets the block's number.
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
