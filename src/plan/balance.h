// The split by costs as a pipeline asks for it: what layers cost, and whether what becomes of a
// split fits into memory.
//
// Does not own: the search (partition/exact_split.h), the prediction of memory (predict/memory.h).
// Thread-safety: one object is one thread's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/predict/layer_times.h"
#include "sluice/plan.h"

namespace sluice::detail {

class SplitBalance {
 public:
  // model: with what is trained. Throws Error(kUsage) for kMeasured without times, and for times of
  // another number of layers.
  SplitBalance(const ModelSpec& model, const PipelineOptions& options);

  // With layer costs, and with what fits into memory, where the options ask for it. Refers to this.
  PipelineOptions options();

  // The costs of a partition and their unit. Precondition: has_costs().
  bool has_costs() const { return times_.has_value(); }
  Costs costs(const Partition& partition) const { return stage_costs(*times_, partition); }
  std::string unit() const { return times_ ? times_->unit : ""; }

  // The error if splits were looked at and none fits: Error(kMemory) that names the smallest.
  std::optional<Error> shortage() const;

 private:
  bool fits(const Partition& partition);
  const Program& rows_of(const Partition& partition);

  const PipelineOptions given_;
  std::optional<LayerTimes> times_;
  Plan probe_;  // model, replicas and rows of the split that is looked at
  std::optional<StageMap> rows_for_;
  std::vector<int> again_;  // layers that run twice, ascending
  std::int64_t smallest_peak_ = 0;
  bool has_fit_ = false, has_asked_ = false;
};

}  // namespace sluice::detail
