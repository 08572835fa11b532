// The weights of a rank's stages, by full name: read from a directory, with the buffers.
// Thread-safety: one rank's thread.
#pragma once

#include <vector>

#include "sluice/model_spec.h"
#include "sluice/parts/build_stages.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {

// As frozen parameters.
std::vector<ParameterInfo> buffers_of(Stage& stage);

// Parameters as load_parameters(), buffers as load_buffers(); those of adapters stay as they are.
void load_weights(Stage& stage, const HfDirectory& directory, const ModelSpec& spec);

}  // namespace sluice
