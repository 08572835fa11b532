// Shapes of the values that enter a stage, from the shape functions of the layers before it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sluice/parts/chunk.h"

namespace sluice {

class StageInputs {
 public:
  // layers: the whole model. first_layers[s], inputs[s]: of stage s, its first layer and the values
  // that enter it.
  StageInputs(const std::vector<LayerSpec>& layers, const std::vector<int>& first_layers,
              std::vector<std::vector<std::string>> inputs);

  // nullopt when a layer before the stage has no shape function.
  std::optional<std::vector<TensorMeta>> metas(int stage, const Values& batch);

 private:
  struct Known {
    std::vector<TensorMeta> batch;  // of the batch inputs that it was computed for
    std::optional<std::vector<TensorMeta>> metas;
  };
  // Layers without modules; stage s has those that come before it.
  std::vector<Chunk> before_;
  std::map<int, Known> last_;
};

}  // namespace sluice
