#pragma once

#include <string>
#include <vector>

#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// Throws Error(kUsage) if `which` is empty, or names a layer or class that the model does not have.
void require_recomputable(const ModelSpec& model, const ActivationCheckpoint& which);

// Marks recomputed layers and sets their costs. Returns a note for each stage without a recomputed
// layer.
std::vector<std::string> set_recomputed(ModelSpec& model, Partition& partition,
                                        const ActivationCheckpoint& which);

// Returns costs per stage with a forward of 1, where input gradient and backward include the
// recomputed forwards.
Costs recomputation_costs(const ModelSpec& model, const Partition& partition,
                          const MicrobatchShape& microbatch);

}  // namespace sluice::detail
