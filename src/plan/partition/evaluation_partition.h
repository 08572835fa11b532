// Where a model is cut in evaluation, when that is other layers than those that train.
// Thread-safety: pure functions.
#pragma once

#include "sluice/partition.h"
#include "sluice/plan.h"

namespace sluice {

// The same stages on the same ranks: each begins at the layer of the evaluation that has the name
// of its first layer in `training`. model: with an evaluation, whose layers those of the result
// are. Throws Error(kUsage) naming the layer where the evaluation has none of that name, or reads a
// parameter on another rank than has it.
Partition evaluation_partition(const ModelSpec& model, const Partition& training);

// Throws as evaluation_partition() where the plan's model has an evaluation of its own.
void require_evaluation(const Plan& plan);

}  // namespace sluice
