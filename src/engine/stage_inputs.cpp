#include "engine/stage_inputs.h"

#include <utility>

namespace sluice {

StageInputs::StageInputs(const std::vector<LayerSpec>& layers, const std::vector<int>& first_layers,
                         std::vector<std::vector<std::string>> inputs) {
  std::vector<LayerSpec> shapes_only = layers;
  for (LayerSpec& layer : shapes_only) {
    layer.make = nullptr;
    layer.ties.clear();
  }
  for (std::size_t s = 0; s < first_layers.size(); ++s) {
    before_.emplace_back(
        std::vector<LayerSpec>(shapes_only.begin(), shapes_only.begin() + first_layers[s]), 0,
        std::vector<std::string>(), std::move(inputs[s]));
  }
}

std::optional<std::vector<TensorMeta>> StageInputs::metas(int stage, const Values& batch) {
  std::vector<TensorMeta> batch_metas;
  for (const auto& [name, tensor] : batch) batch_metas.push_back(meta_of(tensor));
  Known& known = last_[stage];
  if (known.batch != batch_metas) {
    known = {std::move(batch_metas), before_.at(stage).output_metas({}, batch)};
  }
  return known.metas;
}

}  // namespace sluice
