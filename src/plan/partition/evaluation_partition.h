// Cuts a model that has other layers in evaluation than in training.
#pragma once

#include "sluice/partition.h"
#include "sluice/plan.h"

namespace sluice {

// Each stage starts at the evaluation layer with the name of the stage's first training layer.
// Layers are those of `model.evaluation`, which must exist. Throws Error(kUsage) if that layer is
// missing or a parameter would be on another rank than in training.
Partition evaluation_partition(const ModelSpec& model, const Partition& training);

// Throws evaluation_partition()'s errors. Does nothing if evaluation has the same layers.
void require_evaluation(const Plan& plan);

}  // namespace sluice
