#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "sluice/parts/whole_module.h"

namespace sluice::detail {

struct PlacedPart {
  Part part;
  LayerRole role = LayerRole::kBlock;
  std::string class_name;  // empty without a module
};

// Whether all names of parts are known without the module.
bool is_complete(const ModuleTree& tree);
// module: null if is_complete(). Throws Error(kUsage) for unknown names or classes, a module
// outside all parts, and repeated or nested parts.
std::vector<PlacedPart> place_parts(const ModuleTree& tree, const torch::nn::Module* module);

}  // namespace sluice::detail
