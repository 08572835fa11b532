// Activation checkpointing, for the plan: which layers run twice, and what that costs.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// Throws Error(kUsage) at "activation_checkpoint" for an empty list, and for a name or class that
// no layer of the model has.
void require_recomputable(const ModelSpec& model, const ActivationCheckpoint& which);

// Marks the layers in the partition and gives them the costs of layers that run twice. Returns
// notes: stages without such a layer. Precondition: require_recomputable().
std::vector<std::string> set_recomputed(ModelSpec& model, Partition& partition,
                                        const ActivationCheckpoint& which);

// Units, in which I and B of a stage hold the share of F that runs again.
Costs recomputation_costs(const ModelSpec& model, const Partition& partition,
                          const MicrobatchShape& microbatch);

}  // namespace sluice::detail
