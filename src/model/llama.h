// The layers of Llama and of families that differ from it in their settings only.
// Thread-safety: as make_layers().
#pragma once

#include <vector>

#include "plan/families/llama.h"
#include "sluice/causal_lm.h"

namespace sluice::detail {

std::vector<LayerSpec> assemble_llama_layers(const LlamaConfig& config, const ModelSpec& model,
                                             const LayerOptions& options);

}  // namespace sluice::detail
