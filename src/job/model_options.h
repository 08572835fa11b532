// The types that a configuration asks for.
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>

#include "sluice/causal_lm.h"
#include "sluice/run_config.h"

namespace sluice {

// model.dtype, and the adapter of the run.
LayerOptions layer_options(const RunConfig& config, const std::optional<Adapter>& adapter);
// By which operators the model runs on the CPU: "fused, avx512, own products", the kernels'
// instruction set and whose matrix products, and whether the loss is computed by blocks; or "plain,
// avx512": AdamW is one of the kernels all the same. A function of model, settings and processor
// alone.
std::string kernels_text(const RunConfig& config, const ModelSpec& model);
// training.mixed_precision.
std::optional<at::ScalarType> autocast_type(const RunConfig& config);

}  // namespace sluice
