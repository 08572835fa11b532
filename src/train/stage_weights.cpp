#include "train/stage_weights.h"

#include "sluice/lora.h"

namespace sluice {

std::vector<ParameterInfo> buffers_of(Stage& stage) {
  std::vector<ParameterInfo> buffers;
  for (auto& [name, tensor] : stage.chunk().buffers()) {
    ParameterInfo& info = buffers.emplace_back();
    info.name = name;
    info.global_shape = tensor.sizes().vec();
    info.tensor = tensor;
    info.trainable = false;
  }
  return buffers;
}

void load_weights(Stage& stage, const HfDirectory& directory, const ModelSpec& spec) {
  std::vector<ParameterInfo> base;
  for (const ParameterInfo& parameter : stage.parameters())
    if (!is_adapter_parameter(parameter.name)) base.push_back(parameter);
  load_parameters(directory, base, spec);
  std::vector<ParameterInfo> buffers = buffers_of(stage);
  load_buffers(directory, buffers);
}

}  // namespace sluice
