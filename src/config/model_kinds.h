// The table of model kinds that a configuration can name.
#pragma once

#include <string>

#include "config/run_config.h"
#include "kind/model_kind.h"

namespace sluice::detail {

// The kind that the keys of [model] select.
const ModelKind& kind_of(const RunConfig& config);

// The file or directory that describes the model, or "" if no key names one.
std::string path_of_model(const RunConfig& config);

// Throws Error(kUsage) for a key that this kind of model does not support.
void require_known_to_kind(const RunConfig& config);

// Whether the configuration may use the feature with its kind of model.
bool has_feature(const RunConfig& config, ModelFeature feature);

}  // namespace sluice::detail
