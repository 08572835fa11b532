// The values of a model that are auxiliary losses.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/model.h"

namespace sluice {

// Throws Error(kUsage) for a Model::auxiliary that no layer writes, and for one that is read,
// leaves the model, or is written twice.
void require_auxiliary(const Model& model);

// True for the name of an auxiliary value.
bool is_auxiliary(const Model& model, const std::string& value);

// Names of the auxiliary values that these layers write, in their order.
std::vector<std::string> auxiliary_values(const Model& model, const std::vector<int>& layers);

}  // namespace sluice
