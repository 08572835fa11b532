// Descriptions of a model with an adapter, taken apart, and the files of a PEFT directory.
// Thread-safety: pure functions, but for reading files.
#pragma once

#include <string>
#include <string_view>

#include "sluice/lora.h"

namespace sluice {

// The model without the parameters of adapters, as its weights are stored. The rest of the
// description is not that of the base.
ModelSpec without_adapter(ModelSpec model);
// The model with its parameters of adapters alone.
ModelSpec adapter_alone(ModelSpec model);
bool has_adapter(const ModelSpec& model);
// True for the full name of a parameter of an adapter.
bool is_adapter_parameter(std::string_view name);

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";
// Before the full name of a parameter in kAdapterFile.
inline constexpr const char* kAdapterPrefix = "base_model.model.";

// The place of the base, as such a text in `directory` says it; "": nothing. Throws Error(kInput).
std::string base_of_adapter(const std::string& directory);

}  // namespace sluice
