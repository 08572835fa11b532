// One rank's evaluation layers, if they differ from the training layers. They have the training's
// stages, parameters and buffers.
#pragma once

#include "sluice/model.h"
#include "sluice/plan.h"
#include "train/rank_model.h"
#include "train/step_runner.h"

namespace sluice {

class EvaluationModel {
 public:
  // Collective over all ranks. model: Model::evaluation. plan: the training plan. Throws
  // Error(kUsage) if the plan has no evaluation or shards weights, or if `model` does not fit the
  // plan's stages.
  EvaluationModel(const Model& model, const Plan& plan, RankModel& training,
                  const Transport& transport, const RunOptions& options);

  const Plan& plan() const { return plan_; }
  RankModel& share() { return share_; }
  const ModelEnd& end() const { return end_; }
  // Call this before each evaluation, because training may have replaced its tensors.
  void take_weights();

 private:
  void require_buffers();

  RankModel& training_;
  const Plan plan_;
  const ModelEnd end_;
  RankModel share_;
};

}  // namespace sluice
