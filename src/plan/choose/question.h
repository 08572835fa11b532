// The planner's input: the checked model and options, plus data that all candidates share, such as
// layer costs and the order in which cuts are tried. Use a Question from one thread only.
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
  // Keeps a reference to `options`. Throws Error(kUsage) if the model or the options suit no
  // candidate. For kMeasured, that includes missing times and times of another model.
  Question(ModelSpec model, const PipelineOptions& options);

  const PipelineOptions& options() const { return options_; }
  // The plan's candidate-independent parts, such as the model with its trainable layers.
  const Plan& base() const { return base_; }

  // True if layer costs decide where the model is cut.
  bool cuts_by_costs() const { return options_.balance != Balance::kEven; }
  // Counts and places the stages. Throws Error(kUsage).
  Cutting placed(const PartitionOptions& partition, CutBy by) const;
  // Cuts for these stages, fastest first. Requires cuts_by_costs(). Throws as Cutting::problem()
  // does.
  CutOrder& cuts(const Cutting& cutting);
  // Layers whose forward is recomputed, ascending. Requires cuts_by_costs().
  const std::vector<int>& again() const { return again_; }

  // Layer times. If null, F, I and W of every stage take 1.
  const LayerTimes* times() const { return times_.get(); }

 private:
  void set_times();
  // Reduces costs and times to the share of one tensor-parallel rank.
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
