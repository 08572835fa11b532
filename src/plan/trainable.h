// Selects which parameters of a model train.
#pragma once

#include <string>
#include <vector>

#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// Freezes every parameter unless one of its uses matches a pattern, and lowers the costs of layers
// that then keep and compute less. Throws Error(kUsage) at "trainable" for an empty list, or for a
// pattern that matches nothing. The error suggests the nearest name.
void set_trainable(ModelSpec& model, const std::vector<std::string>& patterns);

// Throws Error(kUsage) at "no_decay", with the nearest name, for a pattern that matches no
// parameter. Does nothing if the parameters are not known yet.
void require_no_decay(const ModelSpec& model, const std::vector<std::string>& patterns);

// Freezes the layers whose names match a pattern, even if their parameters are not known yet.
// Throws Error(kUsage), with the nearest name, for a pattern that matches no layer.
void freeze_layers(ModelSpec& model, const std::vector<std::string>& patterns);

// Recomputes the costs of all layers from their trainable parameters.
void set_costs_of_trained(ModelSpec& model, const TensorParallel& shares = {});

// Throws Error(kUsage) if the whole model is frozen.
void require_something_to_train(const ModelSpec& model);

// One entry per stage. Empty if every stage needs its full backward.
std::vector<StageBackward> backwards_of(const Partition& partition);

// Lowers the cost of B for stages that compute no input gradient because nothing before them
// trains.
Costs drop_frozen_costs(Costs costs, const Partition& partition);

// Explains to the user how freezing changes the program.
std::vector<std::string> frozen_notes(const Partition& partition);

}  // namespace sluice::detail
