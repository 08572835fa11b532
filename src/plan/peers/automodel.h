#pragma once

#include <string>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice {

// Module names of encoders and projectors that stay on the first stage.
const std::vector<std::string>& multimodal_suffixes();

// Throws Error(kUsage) if the head is tied to `embed_tokens`. Other unsupported models fail later,
// in the split.
void validate_hf_model_for_pipeline_support(const ModelSpec& model);

}  // namespace sluice
