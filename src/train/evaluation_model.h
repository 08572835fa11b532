// A rank's share of the layers that evaluate, for models that evaluate with other layers than they
// train. The modules are cut where the training's modules are cut, and they use the training's
// parameters and buffers.
#pragma once

#include "sluice/model.h"
#include "sluice/plan.h"
#include "train/rank_model.h"
#include "train/step_runner.h"

namespace sluice {

class EvaluationModel {
 public:
  // Collective over all ranks. model: Model::evaluation. plan: the plan of the training. Throws
  // Error(kUsage) on every rank if the plan does not describe the evaluation, if the evaluation
  // cannot be cut like the training, or if weights are sharded.
  EvaluationModel(const Model& model, const Plan& plan, RankModel& training,
                  const Transport& transport, const RunOptions& options);

  const Plan& plan() const { return plan_; }
  RankModel& share() { return share_; }
  const ModelEnd& end() const { return end_; }
  // Makes the modules use the current tensors of the training.
  void take_weights();

 private:
  void require_buffers();

  RankModel& training_;
  const Plan plan_;
  const ModelEnd end_;
  RankModel share_;
};

}  // namespace sluice
