// Layers that take equally long: one of each kind is measured for all.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice::detail {

// The properties of a layer that decide how long it takes: role, class, values, sizes of parameters
// and what of them is trained, under names that are the same for layers that are alike.
std::string kind_text(const LayerInfo& layer);

// Layers that are never on different stages, in the order of the model: those before the first
// block, each from the first to the last block, and those behind.
struct LayerGroup {
  std::vector<int> layers;
  int measured_as =
      0;  // the group of the same kind that comes first; its own number, if it is that
};
std::vector<LayerGroup> layer_groups(const ModelSpec& model);

}  // namespace sluice::detail
