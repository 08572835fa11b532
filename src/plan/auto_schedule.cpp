#include "plan/auto_schedule.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "plan/neighbours.h"
#include "plan/search/search.h"

namespace sluice::detail {
namespace {

constexpr int kUsualStages = 4;  // a rank; more only where they divide the blocks evenly
constexpr int kMostStages = 8;
constexpr std::size_t kSearched = 2;  // kinds of stages for which an order is searched
constexpr std::int64_t kSearchEffort = 3'000'000;
constexpr double kSame = 1e-9;  // share of a step that makes no difference

void require_free(const PipelineOptions& options) {
  const auto refuse = [](const char* what) {
    throw Error(ErrorKind::kUsage,
                {.what = std::string("`auto_schedule` and ") + what + " exclude each other",
                 .where = "`schedule`",
                 .remedy = "give one of them"});
  };
  if (options.own_schedule) refuse("`own_schedule`");
  if (options.schedule) refuse("`schedule`");
}

int asked_stages_per_rank(const PartitionOptions& partition, int num_ranks) {
  if (partition.stages_per_rank > 0) return partition.stages_per_rank;
  if (partition.num_stages > 0) return std::max(1, partition.num_stages / num_ranks);
  if (!partition.stage_to_rank.empty())
    return std::max(1, static_cast<int>(partition.stage_to_rank.size()) / num_ranks);
  return 0;
}

// The number of stages follows from it.
bool has_own_split(const PartitionOptions& partition) {
  return !partition.split_points.empty() || !partition.cuts.empty() || !partition.modules.empty() ||
         partition.layers_per_stage > 0;
}

// Those that a schedule can have, and that the model has blocks for.
std::vector<int> stages_to_try(const ScheduleInfo& schedule, const ModelSpec& model,
                               const PipelineOptions& options) {
  const int num_ranks = options.num_ranks.value_or(1);
  const int asked = asked_stages_per_rank(options.partition, num_ranks);
  const bool settles_stages = has_own_split(options.partition);
  if (asked > 0 || settles_stages) return {asked};
  if (schedule.single_stage) return {1};
  if (schedule.placement == Placement::kV) return {2};
  // With one stage a rank, others are schedules of one stage by another name.
  std::vector<int> result;
  if (schedule.kind == ScheduleKind::kInterleavedZeroBubble) result.push_back(1);
  for (int each = 2; each <= kMostStages; ++each) {
    const int stages = each * num_ranks;
    const bool fits = stages <= model.num_blocks();
    if (fits && (each <= kUsualStages || model.num_blocks() % stages == 0)) result.push_back(each);
  }
  return result;
}

std::int64_t peak_of(const Plan& plan) {
  std::int64_t peak = 0;
  for (const RankPrediction& rank : plan.ranks) peak = std::max(peak, rank.memory.total_bytes());
  return peak;
}

// True if the first of two candidates that can be taken is better.
bool is_better(const ScheduleCandidate& a, const ScheduleCandidate& b) {
  if (std::abs(a.step - b.step) > kSame * b.step) return a.step < b.step;
  return std::tie(a.stages_per_rank, a.peak_bytes) < std::tie(b.stages_per_rank, b.peak_bytes);
}

std::string over_memory(std::int64_t peak, std::int64_t most) {
  return "needs " + human_bytes(peak) + " on a rank, above " + human_bytes(most);
}

class FastestPlan {
 public:
  FastestPlan(const ModelSpec& model, const PipelineOptions& options)
      : model_(model), options_(options) {
    options_.auto_schedule = false;
  }

  Plan make() {
    for (const ScheduleInfo& schedule : schedule_table()) {
      for (const int stages : stages_to_try(schedule, model_, options_))
        try_named(schedule, stages);
    }
    try_searched();
    if (!best_) fail();
    candidates_[taken_].taken = true;
    best_->candidates = candidates_;
    return std::move(*best_);
  }

 private:
  void try_named(const ScheduleInfo& schedule, int stages_per_rank) {
    PipelineOptions options = options_;
    options.schedule = schedule.kind;
    if (stages_per_rank > 0 && options.partition.num_stages == 0 &&
        options.partition.stage_to_rank.empty()) {
      options.partition.stages_per_rank = stages_per_rank;
    }
    ScheduleCandidate candidate;
    candidate.name = schedule.name;
    candidate.stages_per_rank = stages_per_rank;
    candidate.placement = schedule.placement;
    consider(std::move(candidate), options);
  }

  // Orders from which a search may begin, of equal stages on equal ranks.
  struct Likeness {
    StageMap stage_map;
    Costs costs;
    double fastest = 0;     // of the schedules
    double more_bytes = 0;  // a rank needs beside what the costs say
    std::vector<Schedule> schedules;
  };

  void remember(const Plan& plan, const ScheduleCandidate& candidate) {
    if (!plan.program.backwards.empty()) return;  // what is frozen has other actions
    auto like = std::find_if(likenesses_.begin(), likenesses_.end(), [&](const Likeness& each) {
      return each.stage_map == plan.partition.stage_map &&
             each.costs.per_stage == plan.costs.per_stage;
    });
    if (like == likenesses_.end()) {
      like =
          likenesses_.insert(like, {plan.partition.stage_map, plan.costs, candidate.step, 0, {}});
    }
    like->fastest = std::min(like->fastest, candidate.step);
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      const double more = static_cast<double>(plan.ranks[rank].memory.total_bytes()) -
                          plan.simulation.peak_bytes_per_rank[rank];
      like->more_bytes = std::max(like->more_bytes, more);
    }
    like->schedules.push_back(plan.schedule);
  }

  // Tries the searched orders where the named ones are fastest.
  void try_searched() {
    if (options_.num_ranks.value_or(1) < 2) return;
    std::stable_sort(likenesses_.begin(), likenesses_.end(),
                     [](const Likeness& a, const Likeness& b) { return a.fastest < b.fastest; });
    for (std::size_t i = 0; i < std::min(kSearched, likenesses_.size()); ++i) {
      const Likeness& like = likenesses_[i];
      SearchOptions search;
      search.starts = like.schedules;
      search.effort = kSearchEffort;
      if (options_.memory_per_rank && !like.costs.per_stage.empty())
        search.max_bytes = static_cast<double>(*options_.memory_per_rank) - like.more_bytes;
      std::optional<Schedule> found = search_schedule(
          like.stage_map, options_.num_microbatches.value_or(1), like.costs, search);
      if (!found) continue;
      PipelineOptions options = options_;
      options.own_schedule = std::move(*found);
      options.partition.stage_to_rank.clear();
      options.partition.placement.reset();
      options.partition.stages_per_rank = options.partition.num_stages = 0;
      ScheduleCandidate candidate;
      candidate.name = options.own_schedule->name;
      candidate.stages_per_rank = like.stage_map.stages_per_rank();
      candidate.placement = like.stage_map.is(Placement::kLoop) ? Placement::kLoop : Placement::kV;
      consider(std::move(candidate), options);
    }
  }

  void consider(ScheduleCandidate candidate, const PipelineOptions& options) {
    Plan plan;
    try {
      plan = plan_pipeline(model_, options);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal) throw;
      if (!failure_ || error.kind() == ErrorKind::kMemory) failure_ = error;
      candidate.refusal = error.fact();
      candidates_.push_back(std::move(candidate));
      return;
    }
    candidate.stages_per_rank = plan.partition.stages_per_rank();
    candidate.step = plan.simulation.makespan;
    candidate.bubble_fraction = plan.simulation.bubble_fraction;
    candidate.peak_bytes = peak_of(plan);
    candidate.refusal = order_of_sums_violation(plan.program);
    const std::optional<std::int64_t> most = options_.memory_per_rank;
    if (candidate.refusal.empty() && most && candidate.peak_bytes > *most) {
      candidate.refusal = over_memory(candidate.peak_bytes, *most);
      smallest_ = smallest_ ? std::min(*smallest_, candidate.peak_bytes) : candidate.peak_bytes;
    }
    candidates_.push_back(std::move(candidate));
    const ScheduleCandidate& added = candidates_.back();
    if (added.refusal.empty() && !options.own_schedule) remember(plan, added);
    if (!added.refusal.empty() || (best_ && !is_better(added, candidates_[taken_]))) return;
    best_ = std::move(plan);
    taken_ = candidates_.size() - 1;
  }

  [[noreturn]] void fail() const {
    if (smallest_) {
      throw Error(
          ErrorKind::kMemory,
          {.what = "no schedule fits into memory: the smallest needs " + human_bytes(*smallest_) +
                   " on a rank, `memory_per_rank` = " + human_bytes(*options_.memory_per_rank),
           .where = "`memory_per_rank`",
           .remedy = "use more ranks, a smaller `microbatch_size` or `seq_len`, or "
                     "`activation_checkpoint`"});
    }
    if (failure_) throw Error(*failure_);
    throw Error(ErrorKind::kUsage,
                {.what = "no schedule can be taken: " + candidates_.front().refusal,
                 .where = "`schedule`",
                 .remedy = "name a schedule"});
  }

  const ModelSpec& model_;
  PipelineOptions options_;
  std::vector<ScheduleCandidate> candidates_;
  std::vector<Likeness> likenesses_;
  std::optional<Plan> best_;
  std::size_t taken_ = 0;
  std::optional<std::int64_t> smallest_;  // of those that are too large
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
               " add up in another order than that of the microbatches: '" + to_text(half) +
               "' after microbatch " + std::to_string(before);
      }
      before = half.microbatch;
    }
  }
  return {};
}

Plan plan_fastest(ModelSpec model, const PipelineOptions& options) {
  require_free(options);
  return FastestPlan(model, options).make();
}

}  // namespace sluice::detail
