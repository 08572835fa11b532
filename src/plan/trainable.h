// The trained part of a model, by patterns of names.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// Freezes the parameters of which no use matches a pattern, and lowers the costs of layers that
// then keep and compute less. Throws Error(kUsage) at "trainable" for an empty list, and for a
// pattern that matches nothing, with the nearest name.
void set_trainable(ModelSpec& model, const std::vector<std::string>& patterns);

// Throws Error(kUsage) at "no_decay" for a pattern that matches no parameter, with the nearest one.
// Checks nothing for a model whose parameters are not known yet.
void require_no_decay(const ModelSpec& model, const std::vector<std::string>& patterns);

// Freezes whole layers by patterns of their names, also those of which the parameters are not
// known. Throws Error(kUsage) for a pattern that matches no layer, with the nearest name.
void freeze_layers(ModelSpec& model, const std::vector<std::string>& patterns);

// Sets the costs of all layers by what of them is trained.
void set_costs_of_trained(ModelSpec& model, const TensorParallel& shares = {});

// Throws Error(kUsage) when all of a model is frozen.
void require_something_to_train(const ModelSpec& model);

// By stage. Empty: there is nothing that a program could leave out.
std::vector<StageBackward> backwards_of(const Partition& partition);

// B of a stage below which nothing is trained costs what it does without I.
Costs drop_frozen_costs(Costs costs, const Partition& partition);

// The effects of freezing on the program, for people; empty: none.
std::vector<std::string> frozen_notes(const Partition& partition);

}  // namespace sluice::detail
