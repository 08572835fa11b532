#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "sluice/parts/whole_module.h"

namespace sluice::detail {

struct PlacedPart {
  Part part;
  LayerRole role = LayerRole::kBlock;
  std::string class_name;  // class of the part; empty without a module
};

// Whether the tree names all parts, so that no module is needed to find them.
bool is_complete(const ModuleTree& tree);
// Returns a module's parts, which become layers. `module` may be null if is_complete(tree). Throws
// Error(kUsage) for unknown names or classes, a module outside all parts, and repeated or nested
// parts.
std::vector<PlacedPart> place_parts(const ModuleTree& tree, const torch::nn::Module* module);

}  // namespace sluice::detail
