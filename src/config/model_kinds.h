#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "kind/model_kind.h"

namespace sluice::detail {

const ModelKind& kind_of(const RunConfig& config);
// Returns the values of the keys that only this kind of model has.
std::map<std::string, std::vector<std::string>, std::less<>> own_keys_of(const RunConfig& config);

// Returns the model's file or directory, or "" if no key names one.
std::string path_of_model(const RunConfig& config);

void require_supported_by_kind(const RunConfig& config);

bool has_feature(const RunConfig& config, ModelFeature feature);

}  // namespace sluice::detail
