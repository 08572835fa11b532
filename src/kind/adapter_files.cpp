#include "kind/adapter_files.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice {
namespace {

ModelSpec kept(ModelSpec model, bool adapters) {
  for (LayerInfo& layer : model.layers) {
    std::erase_if(layer.parameters, [&](const ParameterSpec& parameter) {
      return is_adapter_parameter(parameter.name) != adapters;
    });
  }
  return model;
}

}  // namespace

bool is_adapter_parameter(std::string_view name) {
  return name.ends_with(".lora_A.weight") || name.ends_with(".lora_B.weight");
}

bool has_adapter(const ModelSpec& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const LayerInfo& layer) {
    return std::any_of(
        layer.parameters.begin(), layer.parameters.end(),
        [](const ParameterSpec& parameter) { return is_adapter_parameter(parameter.name); });
  });
}

ModelSpec without_adapter(ModelSpec model) { return kept(std::move(model), false); }
ModelSpec adapter_alone(ModelSpec model) { return kept(std::move(model), true); }

}  // namespace sluice
