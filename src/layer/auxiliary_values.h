// Finds the values of a model that are auxiliary losses.
#pragma once

#include <string>
#include <vector>

#include "sluice/model.h"

namespace sluice {

// Checks the model's auxiliary losses. Throws Error(kUsage) if a layer reads one, if not exactly
// one layer writes it, or if it is an output of the model.
void require_auxiliary(const Model& model);

bool is_auxiliary(const Model& model, const std::string& value);

std::vector<std::string> auxiliary_values(const Model& model, const std::vector<int>& layers);

}  // namespace sluice
