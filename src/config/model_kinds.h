// The table of the kinds of models that a configuration can name.
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "config/run_config.h"
#include "kind/model_kind.h"

namespace sluice::detail {

// The kind that the keys of [model] choose.
const ModelKind& kind_of(const RunConfig& config);

// The file or directory that describes the model; "": the configuration names none.
std::string path_of_model(const RunConfig& config);

// Throws Error(kUsage) at the place of a key that the kind has no meaning for.
void require_known_to_kind(const RunConfig& config);

// Whether the configuration may use the feature with its kind of model.
bool has_feature(const RunConfig& config, ModelFeature feature);

}  // namespace sluice::detail
