// A batch cut into microbatches.
#pragma once

#include <string>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/inputs.h"
#include "sluice/parts/values.h"

namespace sluice {

// How many microbatches a batch can be cut into, at most `most`: no more than it has rows. Throws
// Error(kUsage) for names that the model does not have, or lacks, and lengths that differ.
int num_microbatches_of(const Inputs& inputs, const Model& model, int most);

// [microbatch], each with all of model.inputs in their order. Precondition: num_microbatches_of()
// accepted it.
std::vector<Values> split_inputs(const Inputs& inputs, const Model& model, int num_microbatches);

}  // namespace sluice
