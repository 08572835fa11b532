// The share of a model that a rank holds, and with whom: its stages, its groups, the list of all
// parameters of the pipeline, and which replica has which blocks of them. Steps, updates and
// checkpoints go by it.
//
// Does not own: programs and their executors (pipeline_rank.h). Thread-safety: one rank's thread.
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
  // Collective over `world`. plan: placed and cut; its mesh is set. The weights hold nothing yet,
  // or what the factories have made.
  // device: of the stages.
  RankModel(const Model& model, const Plan& plan, const Group& world, at::Device device,
            const RunOptions& options);

  // Calls `fill` for every stage, whose parameters are whole meanwhile; what is there then is the
  // stage's weights.
  void fill(const FillStage& fill);
  // Initializes as RunOptions::weights says. Collective.
  void initialize(const Model& model, const RunOptions& options);

  Stage& stage(int index) const;
  // Its sum over the uses takes all elements.
  bool is_tied(int stage, std::size_t parameter) const;

  const Mesh mesh;
  const DataParallel data_parallel;
  const RunGroups groups;
  RankStages stages;
  const std::vector<SharedParameter> parameters;  // the parameters that train
  const BlockOwners owners;
  const bool shards_state;                     // optimizer state is sharded: zero1, zero3
  std::unique_ptr<ShardedParameters> sharded;  // zero3; null: whole
  bool has_weights = false;                    // else they hold nothing yet
  // Parameters of the own stages that no source of weights has filled, by stage.
  std::map<int, std::vector<std::string>> unfilled;
  std::string unfilled_remedy;  // what the user can do about them
};

// By layer of the model: whether something of it trains. Collective over the ranks: throws
// Error(kUsage) on all of them where replicas differ, with the layer.
std::vector<bool> layers_that_train(const RankModel& rank, const Model& model);

}  // namespace sluice
