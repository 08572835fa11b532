#pragma once

#include <string>
#include <vector>

#include "sluice/model.h"

namespace sluice {

// Throws Error(kUsage) if a layer reads an auxiliary loss, not exactly one layer writes it, or it
// is an output of the model.
void require_auxiliary(const Model& model);

bool is_auxiliary(const Model& model, const std::string& value);

std::vector<std::string> auxiliary_values(const Model& model, const std::vector<int>& layers);

}  // namespace sluice
