// Activation checkpointing in the plan: which layers run their forward twice, and the cost of doing
// so.
#pragma once

#include <string>
#include <vector>

#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// Throws Error(kUsage) at "activation_checkpoint" for an empty list, or for a layer name or class
// that the model does not have.
void require_recomputable(const ModelSpec& model, const ActivationCheckpoint& which);

// Marks the recomputed layers in the partition and sets their costs. Returns a note for each stage
// that recomputes nothing. Precondition: require_recomputable() has passed.
std::vector<std::string> set_recomputed(ModelSpec& model, Partition& partition,
                                        const ActivationCheckpoint& which);

// Returns unit costs per stage in which B and I include the forwards that run again.
Costs recomputation_costs(const ModelSpec& model, const Partition& partition,
                          const MicrobatchShape& microbatch);

}  // namespace sluice::detail
