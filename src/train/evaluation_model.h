// The share of a rank in a model whose evaluation is other layers than those that train.
//
// Owns: modules of those layers, cut where the training's are. Does not own: their parameters and
// buffers, which are those that train.
// Thread-safety: one rank's thread.
#pragma once

#include "sluice/model.h"
#include "sluice/plan.h"
#include "train/rank_model.h"
#include "train/step_runner.h"

namespace sluice {

class EvaluationModel {
 public:
  // Collective over all ranks. model: Model::evaluation; plan: of the training. Throws
  // Error(kUsage) on every rank where the plan does not know the evaluation, cannot be cut as the
  // training is, or shards weights.
  EvaluationModel(const Model& model, const Plan& plan, RankModel& training,
                  const Transport& transport, const RunOptions& options);

  const Plan& plan() const { return plan_; }
  RankModel& share() { return share_; }
  const ModelEnd& end() const { return end_; }
  // Takes the weights as the training has them now.
  void take_weights();

 private:
  void require_buffers();

  RankModel& training_;
  const Plan plan_;
  const ModelEnd end_;
  RankModel share_;
};

}  // namespace sluice
