// The question that the planner is asked, with all that the candidates of its answer share.
//
// Owns: the checks that no candidate changes, the costs of layers, the order in which cuts are
// tried.
// Does not own: the list of candidates (candidates.h). Thread-safety: one object is one thread's.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/partition/cutting.h"
#include "plan/predict/layer_times.h"
#include "sluice/plan.h"

namespace sluice::detail {

class Question {
 public:
  // Refers to the options. Throws what plan_pipeline() throws of a model and of options that fit no
  // candidate: Error(kUsage), for kMeasured also without times and for those of another model.
  Question(ModelSpec model, const PipelineOptions& options);

  const PipelineOptions& options() const { return options_; }
  // Model, with what is trained, and everything else that no candidate decides.
  const Plan& base() const { return base_; }

  // True if the costs of layers say where to cut.
  bool cuts_by_costs() const { return options_.balance != Balance::kEven; }
  // Stages, counted and placed. Throws Error(kUsage).
  Cutting placed(const PartitionOptions& partition, CutBy by) const;
  // The cuts for these stages, the fastest first. Precondition: cuts_by_costs(). Throws as
  // Cutting::problem().
  CutOrder& cuts(const Cutting& cutting);
  // The layers that run twice, ascending. Precondition: cuts_by_costs().
  const std::vector<int>& again() const { return again_; }

  // Times of layers; null: F, I and W of a stage take 1.
  const LayerTimes* times() const { return times_.get(); }

 private:
  void set_times();
  // Costs and times become those of a rank that shares every layer with others.
  void take_share();
  void set_layer_costs();

  const PipelineOptions& options_;
  Plan base_;
  std::shared_ptr<const LayerTimes> times_;
  std::vector<double> layer_costs_;
  std::vector<int> again_;
  std::deque<std::pair<StageMap, CutOrder>> orders_;
};

}  // namespace sluice::detail
