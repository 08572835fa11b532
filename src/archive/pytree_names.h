#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace sluice::detail {

// Names a model's outputs from the archive's container description
// (torch.utils._pytree.treespec_dumps). Nested keys are joined ("past_0"). An output without
// container has the name "".
std::optional<std::vector<std::string>> output_leaf_names(std::string_view spec);
// Names inputs likewise. Positional inputs get the first names in `arguments`.
std::optional<std::vector<std::string>> input_leaf_names(std::string_view spec,
                                                         const std::vector<std::string>& arguments);

}  // namespace sluice::detail
