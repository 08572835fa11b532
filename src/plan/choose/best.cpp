#include "plan/choose/best.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "plan/choose/candidates.h"
#include "plan/choose/plan_one.h"
#include "plan/choose/search/search.h"
#include "plan/neighbours.h"

namespace sluice::detail {
namespace {

constexpr std::size_t kSearched = 2;  // stage maps for which an order is searched
constexpr std::int64_t kSearchEffort = 3'000'000;
constexpr double kSame = 1e-9;  // relative difference that counts as equal

void require_free(const PipelineOptions& options) {
  const auto refuse = [](const char* what) {
    throw Error(ErrorKind::kUsage,
                {.what = std::string("`schedule.is_auto` and ") + what + " exclude each other",
                 .where = "`schedule`",
                 .remedy = "give one of them"});
  };
  if (options.schedule.own) refuse("`schedule.own`");
  if (options.schedule.name) refuse("`schedule.name`");
}

std::int64_t peak_of(const Plan& plan) {
  std::int64_t peak = 0;
  for (const RankPrediction& rank : plan.ranks) peak = std::max(peak, rank.memory.total_bytes());
  return peak;
}

bool is_better(const ScheduleCandidate& a, const ScheduleCandidate& b) {
  if (std::abs(a.step - b.step) > kSame * b.step) return a.step < b.step;
  return std::tie(a.stages_per_rank, a.peak_bytes) < std::tie(b.stages_per_rank, b.peak_bytes);
}

std::string over_memory(std::int64_t peak, std::int64_t most) {
  return "needs " + needed_bytes(peak) + " on a rank, above " + human_bytes(most);
}

class BestPlan {
 public:
  BestPlan(ModelSpec model, const PipelineOptions& options)
      : question_(std::move(model), options), memory_(options.memory_per_rank) {}

  LookedAt look() {
    for (const ScheduleInfo& schedule : schedule_table()) {
      for (const int stages : stages_to_try(question_, schedule)) try_named(schedule, stages);
    }
    require_possible();
    try_searched();
    if (best_) shown_[taken_].taken = true;
    const LayerTimes* times = question_.times();
    return {.candidates = shown_,
            .time_unit = question_.base().time_unit,
            .measured = times && !times->counted};
  }

  Plan make() {
    std::vector<ScheduleCandidate> candidates = look().candidates;
    if (!best_) fail();
    best_->candidates = std::move(candidates);
    return std::move(*best_);
  }

 private:
  void try_named(const ScheduleInfo& schedule, int stages_per_rank) {
    ScheduleCandidate shown;
    shown.name = schedule.name;
    shown.stages_per_rank = stages_per_rank;
    shown.placement = schedule.placement;
    consider(std::move(shown),
             [&] { return named_candidate(question_, schedule, stages_per_rank); });
  }

  // Starting points of one search: schedules with equal stage maps and costs.
  struct Likeness {
    StageMap stage_map;
    Costs costs;
    double fastest = 0;
    double more_bytes = 0;  // largest predicted bytes per rank that `costs` do not include
    std::vector<Schedule> schedules = {};
  };

  void remember(const Plan& plan, const ScheduleCandidate& shown) {
    if (!plan.program.backwards.empty()) return;  // the search cannot handle frozen stages
    auto like = std::find_if(likenesses_.begin(), likenesses_.end(), [&](const Likeness& each) {
      return each.stage_map == plan.partition.stage_map &&
             each.costs.per_stage == plan.costs.per_stage;
    });
    if (like == likenesses_.end()) {
      like = likenesses_.insert(
          like,
          {.stage_map = plan.partition.stage_map, .costs = plan.costs, .fastest = shown.step});
    }
    like->fastest = std::min(like->fastest, shown.step);
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      const double more = static_cast<double>(plan.ranks[rank].memory.total_bytes()) -
                          plan.simulation.ranks[rank].peak_bytes;
      like->more_bytes = std::max(like->more_bytes, more);
    }
    like->schedules.push_back(plan.schedule);
  }

  // If every candidate failed and none for lack of memory, the settings are wrong.
  void require_possible() const {
    const bool is_any_made = std::any_of(
        shown_.begin(), shown_.end(),
        [](const ScheduleCandidate& each) { return each.peak_bytes > 0 || each.short_of_memory; });
    if (!is_any_made && failure_) throw Error(*failure_);
  }

  void try_searched() {
    const PipelineOptions& options = question_.options();
    if (options.num_ranks.value_or(1) < 2) return;
    std::stable_sort(likenesses_.begin(), likenesses_.end(),
                     [](const Likeness& a, const Likeness& b) { return a.fastest < b.fastest; });
    for (std::size_t i = 0; i < std::min(kSearched, likenesses_.size()); ++i) {
      const Likeness& like = likenesses_[i];
      SearchOptions search;
      search.starts = like.schedules;
      search.effort = kSearchEffort;
      if (memory_ && !like.costs.per_stage.empty())
        search.max_bytes = static_cast<double>(*memory_) - like.more_bytes;
      std::optional<Schedule> found =
          search_schedule(like.stage_map, options.num_microbatches.value_or(1), like.costs, search);
      if (!found) continue;
      ScheduleCandidate shown;
      shown.name = found->name;
      shown.stages_per_rank = like.stage_map.stages_per_rank();
      shown.placement = like.stage_map.is(Placement::kLoop) ? Placement::kLoop : Placement::kV;
      consider(std::move(shown), [&] { return searched_candidate(question_, std::move(*found)); });
    }
  }

  template <typename MakeCandidate>
  void consider(ScheduleCandidate shown, const MakeCandidate& make_candidate) {
    Plan plan;
    bool is_named = false;
    try {
      const Candidate candidate = make_candidate();
      is_named = candidate.name.has_value();
      plan = finish_plan(draft_one(question_, candidate));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal) throw;
      if (const auto* short_of = dynamic_cast<const NoCutFits*>(&error)) {
        add_need(short_of->smallest());
        shown.short_of_memory = true;
      }
      if (!failure_) failure_ = error;
      shown.refusal = error.fact();
      shown_.push_back(std::move(shown));
      return;
    }
    shown = candidate_of(plan);
    if (memory_ && shown.peak_bytes > *memory_) add_need(shown.peak_bytes);
    shown_.push_back(std::move(shown));
    const ScheduleCandidate& added = shown_.back();
    if (added.refusal.empty() && is_named) remember(plan, added);
    if (!added.refusal.empty() || (best_ && !is_better(added, shown_[taken_]))) return;
    best_ = std::move(plan);
    taken_ = shown_.size() - 1;
  }

  void add_need(std::int64_t bytes) { smallest_ = smallest_ ? std::min(*smallest_, bytes) : bytes; }

  [[noreturn]] void fail() const {
    if (smallest_)
      throw memory_error("no schedule fits into memory: the smallest needs", *smallest_, *memory_);
    if (failure_) throw Error(*failure_);
    throw Error(ErrorKind::kUsage, {.what = "no schedule can be used: " + shown_.front().refusal,
                                    .where = "`schedule`",
                                    .remedy = "name a schedule"});
  }

  Question question_;
  const std::optional<std::int64_t> memory_;  // bytes per rank
  std::vector<ScheduleCandidate> shown_;
  std::vector<Likeness> likenesses_;
  std::optional<Plan> best_;
  std::size_t taken_ = 0;
  std::optional<std::int64_t> smallest_;  // least memory of the candidates that do not fit
  std::optional<Error> failure_;
};

}  // namespace

std::string order_of_sums_violation(const Program& program) {
  std::vector<int> last(static_cast<std::size_t>(program.num_stages()), -1);
  for (const std::vector<Action>& row : program.ranks) {
    for (const Action& action : row) {
      const Action half = action.kind == ActionKind::kOverlap ? action.overlap_backward() : action;
      if (!makes_weight_gradient(half.kind)) continue;
      int& before = last[static_cast<std::size_t>(half.stage)];
      if (half.microbatch < before) {
        return "gradients of stage " + std::to_string(half.stage) +
               " do not add up in the order of the microbatches: '" + to_text(half) +
               "' after microbatch " + std::to_string(before);
      }
      before = half.microbatch;
    }
  }
  return {};
}

Plan best_plan(ModelSpec model, const PipelineOptions& options) {
  require_free(options);
  return BestPlan(std::move(model), options).make();
}

ScheduleCandidate candidate_of(const Plan& plan) {
  ScheduleCandidate shown;
  shown.name = plan.schedule.name;
  shown.stages_per_rank = plan.partition.stages_per_rank();
  const bool loops = plan.schedule.stage_map.is(Placement::kLoop);
  shown.placement = loops ? Placement::kLoop : Placement::kV;
  shown.step = plan.simulation.makespan;
  shown.bubble_fraction = plan.simulation.bubble_fraction;
  shown.peak_bytes = peak_of(plan);
  shown.refusal = order_of_sums_violation(plan.program);
  if (shown.refusal.empty() && plan.options.memory_per_rank &&
      shown.peak_bytes > *plan.options.memory_per_rank) {
    shown.refusal = over_memory(shown.peak_bytes, *plan.options.memory_per_rank);
    shown.short_of_memory = true;
  }
  return shown;
}

LookedAt look_at_all(ModelSpec model, const PipelineOptions& options) {
  require_free(options);
  return BestPlan(std::move(model), options).look();
}

}  // namespace sluice::detail
