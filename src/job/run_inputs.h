// What a configuration names, opened and checked: data options, weights.
// Thread-safety: pure functions, but for warnings (log.h).
#pragma once

#include <optional>

#include "sluice/data.h"
#include "sluice/hf_directory.h"
#include "sluice/model_spec.h"
#include "sluice/run_config.h"

namespace sluice {

TokenDataOptions token_data_options(const RunConfig& config, const ModelSpec& spec);

// The checkpoint of model.path, its headers compared with the model (check_checkpoint); nothing
// with model.config alone. Tensors that the model has no place for are named in a warning.
std::optional<HfDirectory> open_weights(const RunConfig& config, const ModelSpec& spec);

}  // namespace sluice
