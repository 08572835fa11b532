// Splits a model with an adapter. Names the files of a PEFT directory.
#pragma once

#include <string>
#include <string_view>

#include "sluice/lora.h"

namespace sluice {

// Removes the adapter's parameters. Costs still include the adapter.
ModelSpec without_adapter(ModelSpec model);
ModelSpec adapter_alone(ModelSpec model);
bool has_adapter(const ModelSpec& model);
bool is_adapter_parameter(std::string_view name);

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";
// Prefix of parameter names in kAdapterFile.
inline constexpr const char* kAdapterPrefix = "base_model.model.";

// Returns base_model_name_or_path, or "". Throws Error(kInput).
std::string base_of_adapter(const std::string& directory);

}  // namespace sluice
