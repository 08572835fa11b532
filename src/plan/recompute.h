#pragma once

#include <string>
#include <vector>

#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// Throws Error(kUsage) for an empty list, or for a layer name or class that the model does not
// have.
void require_recomputable(const ModelSpec& model, const ActivationCheckpoint& which);

// Returns a note for each stage without a recomputed layer.
std::vector<std::string> set_recomputed(ModelSpec& model, Partition& partition,
                                        const ActivationCheckpoint& which);

// Returns costs per stage, where a forward takes 1 and backwards include the recomputed forwards.
Costs recomputation_costs(const ModelSpec& model, const Partition& partition,
                          const MicrobatchShape& microbatch);

}  // namespace sluice::detail
