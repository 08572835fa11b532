#pragma once

#include <string>
#include <vector>

#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// Freezes all parameters that no pattern matches in any of their uses, and updates the layers'
// costs. Throws Error(kUsage) if `patterns` is empty or one matches nothing.
void set_trainable(ModelSpec& model, const std::vector<std::string>& patterns);

// Replaces kNormsAndBiases by the names of all parameters with at most one dimension. Throws
// Error(kUsage) if a pattern matches no known parameter, or the names are not known.
std::vector<std::string> no_decay_patterns(const ModelSpec& model,
                                           const std::vector<std::string>& patterns);

// Freezes the layers whose names match, even if their parameters are not known yet. Throws
// Error(kUsage) if a pattern matches nothing.
void freeze_layers(ModelSpec& model, const std::vector<std::string>& patterns);

void set_costs_of_trained(ModelSpec& model, const TensorParallel& shares = {});

void require_something_to_train(const ModelSpec& model);

// Returns the gradients that each stage's backward computes. Frozen parameters may make some
// unnecessary. Returns an empty list if every stage computes both input and weight gradients
// (StageBackward::kFull).
std::vector<StageBackward> backwards_of(const Partition& partition);

// Removes the input gradient's cost from the backward of stages with only frozen parameters before
// them.
Costs drop_frozen_costs(Costs costs, const Partition& partition);

std::vector<std::string> frozen_notes(const Partition& partition);

}  // namespace sluice::detail
