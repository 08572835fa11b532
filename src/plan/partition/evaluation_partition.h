// Cuts a model whose evaluation has other layers than its training.
#pragma once

#include "sluice/partition.h"
#include "sluice/plan.h"

namespace sluice {

// Keeps stages and ranks. Each stage starts at the evaluation layer that has the name of its first
// training layer. The result refers to the layers of `model.evaluation`, which must exist.
//
// Throws Error(kUsage), naming the layer, if the evaluation has no layer of that name or reads a
// parameter that is on another rank.
Partition evaluation_partition(const ModelSpec& model, const Partition& training);

// Throws like evaluation_partition() if the plan's model has an evaluation of its own.
void require_evaluation(const Plan& plan);

}  // namespace sluice
