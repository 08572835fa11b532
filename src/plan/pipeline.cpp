// From a model to a proven program: one step after the other.
#include "plan/draft.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

#include "plan/auto_schedule.h"
#include "plan/balance.h"
#include "plan/data_parallel.h"
#include "plan/passes/passes.h"
#include "plan/pipeline_schedule.h"
#include "plan/predict/memory.h"
#include "plan/recompute.h"
#include "plan/step_program.h"
#include "plan/trainable.h"
#include "sluice/plan.h"

namespace sluice {
namespace {

void require_proof(const Program& program, VerifyReport report, const std::string& subject) {
  try {
    require_verified(report, subject);
  } catch (const Error& error) {
    throw RefusedSchedule(error, program, std::move(report));
  }
}

void require_positive(std::int64_t value, const char* option) {
  if (value >= 1) return;
  throw Error(ErrorKind::kUsage, {.what = option + (" = " + std::to_string(value)),
                                  .where = option,
                                  .remedy = "give at least 1"});
}

// Learned positions (gpt2) end; those of rotary embeddings do not.
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
                     ": it was not made for positions beyond them");
}

void warn_of_one_microbatch(const PipelineOptions& options, std::vector<std::string>& warnings) {
  const int num_ranks = options.num_ranks.value_or(1);
  if (num_ranks == 1 || options.num_microbatches || options.own_schedule) return;
  warnings.push_back("`num_microbatches` is not given, so that a step has one, and the " +
                     std::to_string(num_ranks) + " ranks work one after the other: give at least " +
                     std::to_string(num_ranks));
}

detail::SplitSchedule split_and_schedule(const ModelSpec& model, const PipelineOptions& options) {
  if (!options.own_schedule) return detail::split_with_named_schedule(model, options);
  // Before the split and the passes, which need a schedule that makes sense.
  const Program bare = to_program(*options.own_schedule);
  require_proof(bare, verify(bare), options.own_schedule->name);
  return detail::split_with_own_schedule(model, options);
}

detail::SplitSchedule split_balanced(const ModelSpec& model, detail::SplitBalance& balance) {
  const PipelineOptions options = balance.options();
  try {
    return split_and_schedule(model, options);
  } catch (const Error&) {
    if (const std::optional<Error> shortage = balance.shortage()) throw Error(*shortage);
    throw;
  }
}

std::vector<RankPrediction> predict(const Plan& plan) {
  std::vector<RankPrediction> ranks;
  for (const RankMemory& memory : detail::predict_memory(plan)) {
    const std::size_t rank = ranks.size();
    ranks.push_back({.busy = plan.simulation.busy_per_rank[rank],
                     .finish = plan.simulation.finish_per_rank[rank],
                     .peak_live = plan.simulation.peak_live_per_rank[rank],
                     .memory = memory});
  }
  return ranks;
}

void require_one_reduction(const PipelineOptions& options) {
  const int degree = options.data_parallel.degree;
  if (degree == 1 || options.hooked_reduction == HookedReduction::kNone) return;
  throw Error(ErrorKind::kUsage, {.what = "a hook reduces gradients, and so do the " +
                                          counted(degree, "replica") + " of the plan",
                                  .where = "`hooked_reduction`",
                                  .remedy = "leave the hook out, or plan one replica"});
}

}  // namespace

RefusedSchedule::RefusedSchedule(const Error& error, Program program, VerifyReport report)
    : Error(error),
      refused_(std::make_shared<const Refused>(Refused{std::move(program), std::move(report)})) {}

namespace detail {

Plan draft_plan(ModelSpec model, const PipelineOptions& options) {
  if (options.auto_schedule) return plan_fastest(std::move(model), options);
  require_positive(options.microbatch_size, "`microbatch_size`");
  require_positive(options.seq_len, "`seq_len`");
  Plan plan;
  plan.model = std::move(model);
  plan.microbatch = {options.microbatch_size, options.seq_len};
  plan.data_parallel = options.data_parallel;
  plan.rank_order = options.rank_order;
  plan.step_end = options.step_end;
  plan.gathers_outputs = options.gathers_outputs;
  plan.hooked_reduction = options.hooked_reduction;
  plan.optimizer = options.optimizer;
  plan.keeps_snapshot = options.keeps_snapshot;
  set_trainable(plan.model, options.trainable);
  freeze_layers(plan.model, options.frozen_layers);
  require_something_to_train(plan.model);
  require_positions(plan.model, options.seq_len);
  warn_of_positions(plan.model, options.seq_len, plan.warnings);
  warn_of_one_microbatch(options, plan.warnings);

  SplitBalance balance(plan.model, options);
  plan.balance = options.balance;
  plan.memory_per_rank = options.memory_per_rank;
  SplitSchedule made = split_balanced(plan.model, balance);
  plan.partition = std::move(made.partition);
  plan.schedule = std::move(made.schedule);
  plan.notes = std::move(made.notes);
  const auto note = [&](const std::vector<std::string>& notes) {
    plan.notes.insert(plan.notes.end(), notes.begin(), notes.end());
  };
  note(plan.partition.notes);
  require_data_parallel(plan.data_parallel, plan.schedule.num_microbatches);
  require_one_reduction(options);
  plan.program.mesh = mesh_of(plan.schedule.num_ranks(), plan.data_parallel, plan.rank_order);
  if (options.own_schedule) require_own_collectives(to_program(plan.schedule), plan.data_parallel);
  note(data_parallel_notes(plan.data_parallel));
  note(set_recomputed(plan.model, plan.partition, options.activation_checkpoint));
  if (balance.has_costs()) plan.costs = balance.costs(plan.partition);
  plan.time_unit = balance.unit();
  return plan;
}

Plan finish_plan(Plan plan) {
  for (std::string& text : frozen_notes(plan.partition)) {
    if (std::find(plan.notes.begin(), plan.notes.end(), text) == plan.notes.end())
      plan.notes.push_back(std::move(text));
  }
  plan.program = step_program(plan, {});
  plan.report = verify(plan.program);
  require_proof(plan.program, plan.report, plan.schedule.name);
  if (plan.time_unit.empty()) {
    plan.costs = drop_frozen_costs(recomputation_costs(plan.model, plan.partition, plan.microbatch),
                                   plan.partition);
  }
  plan.simulation = simulate(plan.program, plan.costs);
  plan.ranks = predict(plan);
  return plan;
}

}  // namespace detail

Plan plan_pipeline(ModelSpec model, const PipelineOptions& options) {
  if (options.auto_schedule) return detail::plan_fastest(std::move(model), options);
  return detail::finish_plan(detail::draft_plan(std::move(model), options));
}

}  // namespace sluice
