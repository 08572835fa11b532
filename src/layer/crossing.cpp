#include "layer/crossing.h"

#include "plan/crossing.h"

namespace sluice {

std::vector<std::vector<std::string>> crossing_values(
    const std::vector<LayerSpec>& layers, const std::vector<int>& cuts,
    const std::vector<std::string>& batch_inputs, const std::vector<std::string>& final_outputs) {
  std::vector<LayerNames> names;
  for (const LayerSpec& layer : layers) names.push_back({layer.name, layer.reads, layer.writes});
  return crossing_values(names, cuts, batch_inputs, final_outputs);
}

}  // namespace sluice
