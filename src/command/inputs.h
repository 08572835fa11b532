#pragma once

#include <optional>
#include <string>

#include "config/data_inputs.h"
#include "config/run_config.h"
#include "sluice/causal_lm.h"
#include "sluice/data.h"
#include "sluice/model_spec.h"
#include "sluice/parts/run_options.h"

namespace sluice {

// Returns the folder whose files are copied beside saved weights: model.path. With model.config, it
// is the folder of data.tokenizer, or else of model.config.
std::string source_directory(const RunConfig& config);

// Counts a microbatch in the model's own unit. Empty if the model counts labels or rows.
MicrobatchCount count_by_model(const RunConfig& config, const ModelSpec& spec);

Model run_model(const RunConfig& config, const ModelSpec& spec,
                const std::optional<Adapter>& adapter);
LayerOptions layer_options(const RunConfig& config, const std::optional<Adapter>& adapter);
bool uses_fused(const RunConfig& config, const ModelSpec& model);
// Names the CPU kernels, such as "fused, avx512, own products" (sluice's matrix products) or
// "plain, avx512". Plain operators are LibTorch's, but AdamW still uses sluice's kernels.
std::string kernels_text(const RunConfig& config, const ModelSpec& model);

RunOptions run_options(const RunConfig& config);

}  // namespace sluice
