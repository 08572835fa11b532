// Cuts a model whose evaluation has other layers than its training.
#pragma once

#include "sluice/partition.h"
#include "sluice/plan.h"

namespace sluice {

// Each stage starts at the evaluation layer that has the name of its first training layer. The
// result refers to layers of `model.evaluation`, which must exist. Throws Error(kUsage) if that
// layer is missing or a parameter is on another rank.
Partition evaluation_partition(const ModelSpec& model, const Partition& training);

// Throws like evaluation_partition(). Does nothing if the model has no evaluation of its own.
void require_evaluation(const Plan& plan);

}  // namespace sluice
