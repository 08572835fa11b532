// A rank's share of a model: its stages and groups, the list of all parameters in its pipeline, and
// the replica that owns each block of them. Steps, updates and checkpoints use it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/run_groups.h"
#include "optim/block_owners.h"
#include "optim/sharded_parameters.h"
#include "sluice/model.h"
#include "sluice/options.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/stage.h"
#include "sluice/plan.h"
#include "train/parameter_list.h"

namespace sluice {

struct RankModel {
  // Collective over `world`. plan: must be placed and cut, with its mesh set. The weights are
  // uninitialized, or as the factories made them. device: device of the stages.
  RankModel(const Model& model, const Plan& plan, const Group& world, at::Device device,
            const RunOptions& options);

  // Calls `fill` for every stage, with its parameters whole. Their values then become the weights.
  void fill(const FillStage& fill);
  // Collective. Initializes the weights as RunOptions::weights requires.
  void initialize(const Model& model, const RunOptions& options);

  Stage& stage(int index) const;
  // Whether the gradient is a sum over several uses or slices. That sum needs all elements.
  bool is_tied(int stage, std::size_t parameter) const;

  const Mesh mesh;
  const DataParallel data_parallel;
  const RunGroups groups;
  RankStages stages;
  const std::vector<SharedParameter> parameters;  // trainable parameters only
  const BlockOwners owners;
  const bool shards_state;                     // zero1 or zero3 with several replicas
  std::unique_ptr<ShardedParameters> sharded;  // zero3 only; null: parameters are whole
  bool has_weights = false;                    // false: weights are uninitialized
  // Parameters of this rank's stages that no source of weights has filled, by stage.
  std::map<int, std::vector<std::string>> unfilled;
  std::string unfilled_remedy;  // how the user can fill them
};

// Returns for each layer of the model whether some parameter trains. Collective over all ranks.
// Throws Error(kUsage) on all of them, naming the layer, if replicas differ.
std::vector<bool> layers_that_train(const RankModel& rank, const Model& model);

}  // namespace sluice
