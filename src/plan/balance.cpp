#include "plan/balance.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "plan/pipeline_schedule.h"
#include "plan/predict/layer_times.h"
#include "plan/predict/memory.h"
#include "plan/recompute.h"
#include "plan/step_program.h"
#include "plan/trainable.h"

namespace sluice::detail {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "`partition`", .remedy = remedy});
}

// The model as one stage: which layers run twice does not depend on where it is cut.
Partition uncut(const ModelSpec& model) {
  Partition whole;
  StageContent& stage = whole.stages.emplace_back();
  stage.layers.resize(model.layers.size());
  std::iota(stage.layers.begin(), stage.layers.end(), 0);
  return whole;
}

}  // namespace

SplitBalance::SplitBalance(const ModelSpec& model, const PipelineOptions& options)
    : given_(options) {
  probe_.microbatch = {options.microbatch_size, options.seq_len};
  probe_.data_parallel = options.data_parallel;
  probe_.step_end = options.step_end;
  probe_.hooked_reduction = options.hooked_reduction;
  probe_.optimizer = options.optimizer;
  probe_.keeps_snapshot = options.keeps_snapshot;
  const bool by_costs = options.balance != Balance::kEven;
  if (options.balance == Balance::kMeasured && !options.times)
    refuse("a measured split needs times", "give PipelineOptions::times, or balance kCost");
  if (options.times && options.balance != Balance::kCost) times_ = *options.times;
  if (options.balance == Balance::kCost)
    times_ = counted_times(model, probe_.microbatch, options.optimizer);
  if (times_ && times_->layers.size() != model.layers.size()) {
    refuse("the times are of " + counted(std::ssize(times_->layers), "layer") + ", the model has " +
               std::to_string(model.layers.size()),
           "give the times of this model");
  }
  if (by_costs) probe_.model = model;
}

PipelineOptions SplitBalance::options() {
  PipelineOptions options = given_;
  if (given_.balance == Balance::kEven) return options;
  Partition whole = uncut(probe_.model);
  set_recomputed(probe_.model, whole, given_.activation_checkpoint);
  const int num_microbatches = given_.own_schedule ? given_.own_schedule->num_microbatches
                                                   : given_.num_microbatches.value_or(1);
  again_ = whole.stages.front().recomputed;
  for (std::size_t i = 0; i < times_->layers.size(); ++i) {
    const LayerTime& layer = times_->layers[i];
    double cost = step_time(layer, num_microbatches);
    const bool runs_again = std::binary_search(again_.begin(), again_.end(), static_cast<int>(i));
    if (runs_again && times_->unit != "s") cost += num_microbatches * layer.forward;
    options.partition.layer_costs.push_back(cost);
  }
  if (given_.memory_per_rank)
    options.partition.accepts = [this](const Partition& partition) { return fits(partition); };
  return options;
}

// The order of compute decides what is kept when; sends and receives hold nothing here.
const Program& SplitBalance::rows_of(const Partition& partition) {
  if (rows_for_ == partition.stage_map) return probe_.program;
  const bool several = partition.stages_per_rank() > 1;
  const Schedule schedule =
      given_.own_schedule
          ? *given_.own_schedule
          : named_schedule(partition, given_,
                           given_.schedule.value_or(several ? ScheduleKind::kInterleaved1F1B
                                                            : ScheduleKind::k1F1B));
  LowerOptions lowering = lowering_of(probe_);
  lowering.transfers = false;
  probe_.program = lower(schedule, lowering);
  if (lowering.backwards.empty()) rows_for_ = partition.stage_map;
  return probe_.program;
}

bool SplitBalance::fits(const Partition& partition) {
  probe_.partition = partition;
  for (StageContent& stage : probe_.partition.stages) {
    std::set_intersection(stage.layers.begin(), stage.layers.end(), again_.begin(), again_.end(),
                          std::back_inserter(stage.recomputed));
  }
  rows_of(partition);
  std::int64_t peak = 0;
  for (const RankMemory& rank : predict_memory(probe_)) peak = std::max(peak, rank.total_bytes());
  smallest_peak_ = has_asked_ ? std::min(smallest_peak_, peak) : peak;
  has_asked_ = true;
  has_fit_ |= peak <= *given_.memory_per_rank;
  return peak <= *given_.memory_per_rank;
}

std::optional<Error> SplitBalance::shortage() const {
  if (!has_asked_ || has_fit_) return std::nullopt;
  return Error(
      ErrorKind::kMemory,
      {.what = "no split fits into memory: the smallest of those that were looked at needs " +
               human_bytes(smallest_peak_) +
               " on a rank, `memory_per_rank` = " + human_bytes(*given_.memory_per_rank),
       .where = "`memory_per_rank`",
       .remedy = "use more ranks, a smaller `microbatch_size` or `seq_len`, or "
                 "`activation_checkpoint`"});
}

}  // namespace sluice::detail
