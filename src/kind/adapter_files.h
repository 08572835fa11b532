// The files of a PEFT adapter, and the parameters that they hold.
#pragma once

#include <string>
#include <string_view>

#include "sluice/model_spec.h"

namespace sluice {

bool is_adapter_parameter(std::string_view name);
bool has_adapter(const ModelSpec& model);
// Removes the adapter's parameters, but not its costs.
ModelSpec without_adapter(ModelSpec model);
ModelSpec adapter_alone(ModelSpec model);

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";
// Prefix of parameter names in kAdapterFile.
inline constexpr const char* kAdapterPrefix = "base_model.model.";
// PEFT stores the output layer's own weight beside its adapter.
inline constexpr const char* kBaseLayerEnding = ".base_layer.weight";

}  // namespace sluice
