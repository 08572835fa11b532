#include "plan/choose/question.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "plan/data_parallel.h"
#include "plan/expert_parallel.h"
#include "plan/recompute.h"
#include "plan/slices.h"
#include "plan/trainable.h"

namespace sluice::detail {
namespace {

void require_positive(std::int64_t value, const char* option) {
  if (value >= 1) return;
  throw Error(ErrorKind::kUsage, {.what = option + (" = " + std::to_string(value)),
                                  .where = option,
                                  .remedy = "give at least 1"});
}

// Learned position embeddings (gpt2) limit seq_len, while rotary embeddings do not.
void require_positions(const ModelSpec& model, std::int64_t seq_len) {
  if (!model.max_positions || seq_len <= *model.max_positions) return;
  const std::string positions = std::to_string(*model.max_positions);
  throw Error(ErrorKind::kUsage, {.what = "`seq_len` = " + std::to_string(seq_len) +
                                          " is more than the model's " + positions + " positions",
                                  .where = "`seq_len`",
                                  .remedy = "set `seq_len` to at most " + positions});
}

void warn_of_positions(const ModelSpec& model, std::int64_t seq_len,
                       std::vector<std::string>& warnings) {
  if (!model.usual_positions || seq_len <= *model.usual_positions) return;
  warnings.push_back("`seq_len` = " + std::to_string(seq_len) +
                     " is more than the model's max_position_embeddings = " +
                     std::to_string(*model.usual_positions) +
                     ": the model was not made for positions beyond it");
}

void warn_of_one_microbatch(const PipelineOptions& options, std::vector<std::string>& warnings) {
  const int num_ranks = options.num_ranks.value_or(1);
  if (num_ranks == 1 || options.num_microbatches || options.schedule.own) return;
  warnings.push_back("`num_microbatches` is not given, so a step has one microbatch and the " +
                     std::to_string(num_ranks) + " ranks work one after the other: give at least " +
                     std::to_string(num_ranks));
}

[[noreturn]] void refuse_times(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "`partition`", .remedy = remedy});
}

// All layers are one stage, since the layers to recompute do not depend on cuts.
Partition uncut(const ModelSpec& model) {
  Partition whole;
  StageContent& stage = whole.stages.emplace_back();
  stage.layers.resize(model.layers.size());
  std::iota(stage.layers.begin(), stage.layers.end(), 0);
  return whole;
}

void require_one_reduction(const PipelineOptions& options) {
  const int degree = options.data_parallel.degree;
  if (degree == 1 || options.hooked_reduction == HookedReduction::kNone) return;
  throw Error(ErrorKind::kUsage, {.what = "a hook reduces gradients, and so do the " +
                                          counted(degree, "replica") + " of the plan",
                                  .where = "`hooked_reduction`",
                                  .remedy = "leave the hook out, or plan one replica"});
}

void require_layout(const PipelineOptions& options) {
  const std::optional<Schedule>& own = options.schedule.own;
  require_replicas(options.data_parallel,
                   own ? own->num_microbatches : options.num_microbatches.value_or(1));
  require_one_reduction(options);
  const int num_ranks = own ? own->num_ranks() : options.num_ranks.value_or(1);
  if (num_ranks >= 1)
    mesh_of(num_ranks, options.data_parallel, options.rank_order, options.tensor_parallel,
            options.expert_parallel);
}

template <typename Make>
auto at_partition(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw error.where().empty() ? error.at("`partition`") : error;
  }
}

}  // namespace

Question::Question(ModelSpec model, const PipelineOptions& options) : options_(options) {
  require_positive(options.microbatch_size, "`microbatch_size`");
  require_positive(options.seq_len, "`seq_len`");
  base_.model = std::move(model);
  base_.microbatch = {options.microbatch_size, options.seq_len};
  base_.options = options;
  base_.options.schedule.own.reset();  // the user's schedule becomes Plan::schedule
  set_trainable(base_.model, options.trainable);
  freeze_layers(base_.model, options.frozen_layers);
  require_something_to_train(base_.model);
  require_positions(base_.model, options.seq_len);
  warn_of_positions(base_.model, options.seq_len, base_.warnings);
  warn_of_one_microbatch(options, base_.warnings);
  check_tensor_parallel(base_.options.tensor_parallel);
  require_dividable(base_.model, base_.options.tensor_parallel);
  check_expert_parallel(base_.model, options);
  require_layout(options);
  require_recomputable(base_.model, options.activation_checkpoint);
  set_times();
  if (base_.options.tensor_parallel.num_slices() > 1) take_share();
  divide_casted_experts(base_.model, base_.options.expert_parallel);
  if (times_ && base_.options.expert_parallel.degree > 1)
    times_ = std::make_shared<const LayerTimes>(
        with_shared_experts(*times_, base_.model, base_.options));
  if (cuts_by_costs()) set_layer_costs();
}

void Question::set_times() {
  if (options_.balance == Balance::kMeasured && !options_.times)
    refuse_times("a measured split needs times of the layers",
                 "set PipelineOptions::times, or use Balance::kCost");
  times_ = options_.times;
  if (options_.balance == Balance::kCost && !(times_ && times_->counted)) {
    times_ = std::make_shared<const LayerTimes>(
        counted_times(base_.model, base_.microbatch, options_.optimizer));
  }
  if (!times_) return;
  base_.time_unit = times_->unit;
  if (times_->layers.size() == base_.model.layers.size()) return;
  refuse_times("the times are for " + counted(std::ssize(times_->layers), "layer") +
                   ", but the model has " + std::to_string(base_.model.layers.size()),
               "give the times of this model");
}

void Question::take_share() {
  const ModelSpec whole = base_.model;
  const TensorParallel how = at_length(options_.seq_len, base_.options.tensor_parallel);
  set_costs_of_trained(base_.model, how);
  if (times_)
    times_ = std::make_shared<const LayerTimes>(of_one_share(*times_, whole, base_.model, how));
}

void Question::set_layer_costs() {
  Partition whole = uncut(base_.model);
  set_recomputed(base_.model, whole, options_.activation_checkpoint);
  again_ = whole.stages.front().recomputed;
  const int num_microbatches = options_.schedule.own ? options_.schedule.own->num_microbatches
                                                     : options_.num_microbatches.value_or(1);
  layer_costs_ = step_times(*times_, num_microbatches);
  if (!times_->counted) return;  // measured times already include recomputation
  for (const int layer : again_) {
    const auto i = static_cast<std::size_t>(layer);
    layer_costs_[i] += num_microbatches * times_->layers[i].forward;
  }
}

Cutting Question::placed(const PartitionOptions& partition, CutBy by) const {
  return at_partition([&] { return Cutting(base_.model, partition, by); });
}

CutOrder& Question::cuts(const Cutting& cutting) {
  const auto found = std::find_if(orders_.begin(), orders_.end(), [&](const auto& order) {
    return order.first == cutting.stage_map();
  });
  if (found != orders_.end()) return found->second;
  SplitProblem problem = at_partition([&] { return cutting.problem(layer_costs_); });
  return orders_.emplace_back(cutting.stage_map(), CutOrder(std::move(problem))).second;
}

}  // namespace sluice::detail
