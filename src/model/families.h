// The families that have modules, and what their layers have in common.
//
// Owns: the table of families, LayerSpecs of one input and one output, Hugging Face's initial
// values. Does not own: configurations (plan), the modules' mathematics (llama.cpp, gpt2.cpp,
// modules.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/modules.h"
#include "sluice/model.h"

namespace sluice::detail {

std::vector<LayerSpec> make_llama_layers(const ModelSpec& model, const LayerOptions& options);
std::vector<LayerSpec> make_gpt2_layers(const ModelSpec& model, const LayerOptions& options);

// Standard deviation of the initial values of a weight, by its name inside the layer.
using InitialStd = std::function<double(const std::string& name)>;
// transformers means 0.02 where initializer_range is 0.
double initializer_std(const DecoderConfig& config);

// Name, prefix, values, shapes, ties and initialisation of the layer `info`: ones for weights of
// norms, zeros for biases, normal(0, std) for the rest, the padding row of an embedding zero.
LayerSpec describe_layer(const LayerInfo& info, const ModelSpec& model, const LayerOptions& options,
                         const InitialStd& initial_std);

// Makes `spec` run modules that `make` creates, each with `at::Tensor forward(const at::Tensor&)`.
template <typename Make>
void set_module(LayerSpec& spec, Make make) {
  using Module = typename decltype(make())::element_type;
  spec.make = make;
  spec.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{static_cast<Module&>(module).forward(inputs[0])};
  };
}

// The layers of a family: each argument after initial_std makes a module for set_module(). The head
// is a linear layer without bias in every family.
template <typename MakeEmbedding, typename MakeDecoder, typename MakeNorm>
std::vector<LayerSpec> assemble_layers(const ModelSpec& model, const LayerOptions& options,
                                       const InitialStd& initial_std, MakeEmbedding make_embedding,
                                       MakeDecoder make_decoder, MakeNorm make_norm) {
  const auto make_head = [width = model.config.hidden_size, vocabulary = model.config.vocab_size,
                          options] {
    return std::make_shared<Linear>(width, vocabulary, /*bias=*/false, options);
  };
  std::vector<LayerSpec> layers;
  for (const LayerInfo& info : model.layers) {
    LayerSpec& spec = layers.emplace_back(describe_layer(info, model, options, initial_std));
    switch (info.kind) {
      case LayerKind::kEmbedding:
        set_module(spec, make_embedding);
        break;
      case LayerKind::kDecoder:
        set_module(spec, make_decoder);
        break;
      case LayerKind::kNorm:
        set_module(spec, make_norm);
        break;
      case LayerKind::kHead:
        set_module(spec, make_head);
        break;
    }
  }
  return layers;
}

}  // namespace sluice::detail
