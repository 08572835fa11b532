// The cost of a layer with adapters.
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "sluice/lora.h"

namespace sluice::detail {

// The cost of a layer of which only these adapters train, in place of that of one which trains.
// adapted: of this layer, in the order of its parameters.
void add_adapter_cost(LayerInfo& layer, const std::vector<AdaptedLinear>& adapted, double dropout,
                      const Precision& precision);

}  // namespace sluice::detail
