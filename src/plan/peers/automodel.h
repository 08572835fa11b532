// Parts of NeMo AutoModel's split that the convention `automodel` uses beside the installed
// functions (sluice/parts/peers.h).
#pragma once

#include <string>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice {

// Names of the encoders and projectors that AutoModel keeps on the first stage.
const std::vector<std::string>& multimodal_suffixes();

// AutoModel's check of a model before its split. Throws Error(kUsage) for a head that is tied to
// `embed_tokens`. A model of another structure passes here, and the split refuses it.
void validate_hf_model_for_pipeline_support(const ModelSpec& model);

}  // namespace sluice
