// The parts of a whole module: found in the module where they are not given in full.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "sluice/parts/whole_module.h"

namespace sluice::detail {

// A part with what it counts as in a split.
struct PlacedPart {
  Part part;
  LayerRole role = LayerRole::kBlock;
  std::string class_name;  // class name of its module, if it exists
};

// True if the names of all parts can be told without the module.
bool is_complete(const ModuleTree& tree);
// module: null if is_complete(). Throws Error(kUsage) for names and classes that are not there, for
// what is in no part, and for a part that is named twice or within another.
std::vector<PlacedPart> place_parts(const ModuleTree& tree, const torch::nn::Module* module);

}  // namespace sluice::detail
