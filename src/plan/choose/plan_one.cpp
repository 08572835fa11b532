#include "plan/choose/plan_one.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "plan/choose/best.h"
#include "plan/choose/cut_memory.h"
#include "plan/choose/placed_schedule.h"
#include "plan/data_parallel.h"
#include "plan/passes/passes.h"
#include "plan/predict/memory.h"
#include "plan/recompute.h"
#include "plan/slices.h"
#include "plan/step_program.h"
#include "plan/trainable.h"

namespace sluice {

RefusedSchedule::RefusedSchedule(const Error& error, Program program, VerifyReport report)
    : Error(error),
      refused_(std::make_shared<const Refused>(Refused{std::move(program), std::move(report)})) {}

namespace detail {
namespace {

Schedule scheduled(const Question& question, const Candidate& candidate,
                   const StageMap& stage_map) {
  if (candidate.own) return *candidate.own;
  const PipelineOptions& options = question.options();
  const bool says_where = options.partition.placement || !options.partition.stage_to_rank.empty();
  return placed_schedule(
      *candidate.name, stage_map, options.num_microbatches.value_or(1),
      {.name = candidate.said_by, .places = says_where ? "`stage_to_rank`" : ""});
}

std::vector<std::string> notes_of_rows(const Plan& plan) {
  const TensorParallel& how = plan.options.tensor_parallel;
  const std::int64_t length = plan.microbatch.length;
  if (plan.model.family.empty() || how.degree == 1 || !how.sequence ||
      at_length(length, how).sequence)
    return {};
  return {
      formatted("`seq_len` = {} is no multiple of {}: each rank has all rows of such a "
                "microbatch",
                length, counted(how.num_slices(), "slice"))};
}

// Returns the fastest cut that fits into memory.
Partition cut_by_costs(const Question& question, const Cutting& cutting, const Schedule& schedule,
                       CutOrder& cuts) {
  const std::optional<std::int64_t> most = question.options().memory_per_rank;
  if (!most) return cutting.at(*cuts.at(0));
  CutMemory memory(question, cutting, schedule);
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  const std::vector<int>* starts = nullptr;
  for (std::size_t place = 0; (starts = cuts.at(place)) != nullptr; ++place) {
    smallest = std::min(smallest, memory.peak(*starts, smallest));
    if (smallest <= *most) return cutting.at(*starts);
  }
  throw NoCutFits(smallest, *most);
}

std::vector<RankPrediction> predict(const Plan& plan) {
  std::vector<RankPrediction> ranks;
  for (const RankMemory& memory : detail::predict_memory(plan)) {
    const std::size_t rank = ranks.size();
    ranks.push_back({.busy = plan.simulation.ranks[rank].busy,
                     .finish = plan.simulation.ranks[rank].finish,
                     .peak_live = plan.simulation.ranks[rank].peak_live,
                     .memory = memory});
  }
  return ranks;
}

}  // namespace

Error memory_error(const std::string& what, std::int64_t smallest, std::int64_t limit) {
  return Error(ErrorKind::kMemory,
               {.what = what + " " + needed_bytes(smallest) +
                        " on a rank, but `memory_per_rank` = " + human_bytes(limit),
                .where = "`memory_per_rank`",
                .remedy = "use more ranks, a smaller `microbatch_size` or `seq_len`, or "
                          "`activation_checkpoint`"});
}

NoCutFits::NoCutFits(std::int64_t smallest, std::int64_t limit)
    : Error(memory_error("no split fits into memory: the smallest that was tried needs", smallest,
                         limit)),
      smallest_(smallest) {}

void require_proof(const Program& program, VerifyReport report, const std::string& subject) {
  try {
    require_verified(report, subject);
  } catch (const Error& error) {
    throw RefusedSchedule(error, program, std::move(report));
  }
}

Plan draft_one(Question& question, const Candidate& candidate) {
  const bool by_costs = question.cuts_by_costs();
  const Cutting cutting =
      question.placed(candidate.partition, by_costs ? CutBy::kCosts : CutBy::kRule);
  CutOrder* const cuts = by_costs ? &question.cuts(cutting) : nullptr;
  Plan plan = question.base();
  plan.schedule = scheduled(question, candidate, cutting.stage_map());
  plan.partition = cuts ? cut_by_costs(question, cutting, plan.schedule, *cuts) : cutting.by_rule();
  plan.notes = candidate.notes;
  const auto note = [&](const std::vector<std::string>& notes) {
    plan.notes.insert(plan.notes.end(), notes.begin(), notes.end());
  };
  note(plan.partition.notes);
  note(notes_of_rows(plan));
  note(check_data_parallel(plan.options.data_parallel, plan.schedule, candidate.own.has_value()));
  plan.program.mesh =
      mesh_of(plan.schedule.num_ranks(), plan.options.data_parallel, plan.options.rank_order,
              plan.options.tensor_parallel, plan.options.expert_parallel);
  note(set_recomputed(plan.model, plan.partition, question.options().activation_checkpoint));
  if (question.times()) plan.costs = stage_costs(*question.times(), plan.partition);
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

Plan draft_plan(ModelSpec model, const PipelineOptions& options) {
  if (options.schedule.is_auto) return best_plan(std::move(model), options);
  Question question(std::move(model), options);
  return draft_one(question, asked_candidate(question));
}

}  // namespace detail

Plan plan_pipeline(ModelSpec model, const PipelineOptions& options) {
  Plan plan = detail::draft_plan(std::move(model), options);
  return options.schedule.is_auto ? plan : detail::finish_plan(std::move(plan));
}

}  // namespace sluice
