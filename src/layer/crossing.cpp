#include "layer/crossing.h"

#include "plan/crossing.h"

namespace sluice {

std::vector<std::vector<std::string>> values_crossing_cuts(
    const std::vector<LayerSpec>& layers, const std::vector<int>& cuts,
    const std::vector<std::string>& batch_inputs, const std::vector<std::string>& final_outputs) {
  std::vector<LayerNames> names;
  for (const LayerSpec& layer : layers) names.push_back({layer.name, layer.reads, layer.writes});
  return values_crossing_cuts(names, cuts, batch_inputs, final_outputs);
}

}  // namespace sluice
