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
  // Collective over `world`. plan: has stage cuts and placement. Weights are uninitialized, or as
  // layer factories made them.
  RankModel(const Model& model, const Plan& plan, const Group& world, at::Device device,
            const RunOptions& options);

  // Calls `fill` for every stage while its parameters are whole.
  void fill(const FillStage& fill);
  // Collective. Initializes weights as RunOptions::weights requires.
  void initialize(const Model& model, const RunOptions& options);

  Stage& stage(int index) const;
  // Whether the gradient is a sum over uses or slices. It then needs all elements, not only owned
  // blocks.
  bool is_tied(int stage, std::size_t parameter) const;

  const Mesh mesh;
  const DataParallel data_parallel;
  const RunGroups groups;
  RankStages stages;
  const std::vector<SharedParameter> parameters;
  const BlockOwners owners;
  const bool shards_state;                     // zero1 or zero3
  std::unique_ptr<ShardedParameters> sharded;  // null without zero3
  bool has_weights = false;
  // This rank's parameters that have no values yet, by stage.
  std::map<int, std::vector<std::string>> unfilled;
  std::string unfilled_remedy;  // how the user can fill them
};

// Returns for each layer whether a parameter trains. Collective. Throws Error(kUsage) if replicas
// differ.
std::vector<bool> layers_that_train(const RankModel& rank, const Model& model);

}  // namespace sluice
