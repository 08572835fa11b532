// A planning problem: the checked model and options, with data that all candidates share. Not
// thread-safe.
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
  // Keeps a reference to `options`. Throws Error(kUsage) if no schedule can satisfy them, or if
  // kMeasured lacks layer times.
  Question(ModelSpec model, const PipelineOptions& options);

  const PipelineOptions& options() const { return options_; }
  const Plan& base() const { return base_; }

  bool cuts_by_costs() const { return options_.balance != Balance::kEven; }
  Cutting placed(const PartitionOptions& partition, CutBy by) const;
  // Returns the cuts for the stage map of `cutting`, fastest first. Throws Cutting::problem()'s
  // errors. Requires cuts_by_costs().
  CutOrder& cuts(const Cutting& cutting);
  // Returns the layers to recompute, ascending. Requires cuts_by_costs().
  const std::vector<int>& again() const { return again_; }

  // Returns null if layer times are unknown. F, I and W then take 1 each.
  const LayerTimes* times() const { return times_.get(); }

 private:
  void set_times();
  // Reduces costs and times to those of one tensor-parallel rank.
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
