// What of a config.json decides the numbers of its model.
// Thread-safety: a pure function.
#pragma once

#include <string>

#include "base/json.h"

namespace sluice {

// Without names, versions, the type of the file and what is of generation: what differs between
// copies of a model. An empty object for a text that is none.
Json model_of(const std::string& config_text);

}  // namespace sluice
