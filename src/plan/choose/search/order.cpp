#include "plan/choose/search/order.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr double kUnknown = -1;
constexpr int kCounts = 3;  // counters per stage: completed F; I or B; W or B

std::size_t cell_of(int row, int width, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
         static_cast<std::size_t>(column);
}

}  // namespace

double OrderProblem::held_bytes(int rank) const {
  double bytes = 0;
  for (int stage = 0; stage < num_stages(); ++stage) {
    if (stage_map.rank_of(stage) == rank)
      bytes += stages[static_cast<std::size_t>(stage)].held_bytes;
  }
  return bytes;
}

OrderProblem order_problem(const StageMap& stage_map, int num_microbatches, const Costs& costs,
                           double max_bytes) {
  const auto refuse = [](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage, {.what = what, .where = "search", .remedy = remedy});
  };
  OrderProblem problem;
  problem.stage_map = stage_map;
  problem.num_microbatches = num_microbatches;
  problem.max_bytes = max_bytes;
  const auto num_stages = static_cast<std::size_t>(stage_map.num_stages());
  if (num_microbatches < 1)
    refuse(formatted("the search has {} microbatches", num_microbatches), "give at least 1");
  for (int stage = 0; stage < stage_map.num_stages(); ++stage) {
    if (stage_map.rank_of(stage) < 0 || stage_map.rank_of(stage) >= stage_map.num_ranks())
      refuse(formatted("stage {} is on no rank", stage), "give every stage a rank");
  }
  if (!costs.per_stage.empty() && costs.per_stage.size() != num_stages) {
    refuse(formatted("the costs are for {}, but the stage map has {}",
                     counted(std::ssize(costs.per_stage), "stage"), num_stages),
           "give the costs of every stage");
  }
  problem.stages = costs.per_stage;
  problem.stages.resize(num_stages, costs.uniform);
  for (StageCosts& stage : problem.stages) {
    for (double StageCosts::*cost : {&StageCosts::forward, &StageCosts::backward_input,
                                     &StageCosts::backward_weight, &StageCosts::backward})
      stage.*cost += costs.action;
  }
  problem.message_time.assign(num_stages, 0);
  for (std::size_t cut = 0; cut < costs.message_bytes.size() && cut < num_stages; ++cut) {
    if (costs.bandwidth > 0) problem.message_time[cut] = costs.message_bytes[cut] / costs.bandwidth;
  }
  problem.latency = costs.latency;
  problem.speed = costs.rank_speed;
  problem.speed.resize(static_cast<std::size_t>(stage_map.num_ranks()), 1.0);
  return problem;
}

OrderTimer::OrderTimer(const OrderProblem& problem) : problem_(problem) {}

OrderMerit OrderTimer::time(const Order& order) {
  const auto num_ranks = static_cast<std::size_t>(problem_.num_ranks());
  const auto cells = static_cast<std::size_t>(problem_.num_stages()) *
                     static_cast<std::size_t>(problem_.num_microbatches);
  ranks_.assign(num_ranks, {});
  forward_in_.assign(cells, kUnknown);
  gradient_in_.assign(cells, kUnknown);
  channels_.assign(2 * num_ranks * num_ranks, {});
  done_.assign(cell_of(problem_.num_stages(), kCounts, 0), 0);
  for (std::size_t m = 0; m < static_cast<std::size_t>(problem_.num_microbatches); ++m) {
    forward_in_[m] = 0;
    gradient_in_[cells - 1 - m] = 0;  // the last stage's backward follows its own forward
  }
  for (std::size_t r = 0; r < num_ranks; ++r) {
    ranks_[r].bytes.hold(problem_.held_bytes(static_cast<int>(r)));
    if (ranks_[r].bytes.peak > problem_.max_bytes) return {kNever, kNever};
  }
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t r = 0; r < num_ranks; ++r) {
      const std::size_t before = ranks_[r].at;
      if (!run(static_cast<int>(r), order)) return {kNever, kNever};
      goes_on |= ranks_[r].at != before;
    }
  }
  OrderMerit merit;
  for (std::size_t r = 0; r < num_ranks; ++r) {
    if (ranks_[r].at < order[r].size()) return {kNever, kNever};
    merit.makespan = std::max(merit.makespan, ranks_[r].free);
    merit.finish += ranks_[r].free / static_cast<double>(num_ranks);
  }
  return merit;
}

// Runs the rank until an input is missing. Returns false if its memory runs out.
bool OrderTimer::run(int rank, const Order& order) {
  const std::vector<OrderStep>& row = order[static_cast<std::size_t>(rank)];
  Rank& state = ranks_[static_cast<std::size_t>(rank)];
  const int num_microbatches = problem_.num_microbatches;
  for (; state.at < row.size(); ++state.at) {
    const OrderStep& step = row[state.at];
    const int stage = step.stage;
    int* const done = &done_[cell_of(stage, kCounts, 0)];
    double ready = 0;
    int microbatch = 0;
    if (step.kind == ActionKind::kBackwardWeight) {
      if (done[2] >= done[1]) return true;
    } else {
      microbatch = makes_input_gradient(step.kind) ? done[1] : done[0];
      if (microbatch >= num_microbatches) return true;
      if (makes_input_gradient(step.kind) && done[1] >= done[0]) return true;
      // B must wait for the W of earlier microbatches, to keep weight gradients in order.
      if (step.kind == ActionKind::kBackward && done[2] != done[1]) return true;
      const std::size_t cell = cell_of(stage, num_microbatches, microbatch);
      ready = makes_input_gradient(step.kind) ? gradient_in_[cell] : forward_in_[cell];
      if (ready == kUnknown) return true;
    }
    ++num_steps_;
    state.bytes.count(step.kind, problem_.stages[static_cast<std::size_t>(stage)], /*ends=*/false);
    if (state.bytes.peak > problem_.max_bytes) return false;
    state.free = std::max(state.free, ready) + problem_.cost(rank, step);
    if (step.kind == ActionKind::kForward) ++done[0];
    if (makes_input_gradient(step.kind)) ++done[1];
    if (makes_weight_gradient(step.kind)) ++done[2];
    if (step.kind == ActionKind::kBackwardWeight) continue;
    const bool is_forward = step.kind == ActionKind::kForward;
    const int next = is_forward ? stage + 1 : stage - 1;
    if (next < 0 || next >= problem_.num_stages()) continue;
    double arrival = state.free;
    if (const int there = problem_.stage_map.rank_of(next); there != rank) {
      const auto num_ranks = static_cast<std::size_t>(problem_.num_ranks());
      Instant& channel =
          channels_[((is_forward ? 0 : num_ranks) + static_cast<std::size_t>(rank)) * num_ranks +
                    static_cast<std::size_t>(there)];
      const auto cut = static_cast<std::size_t>(is_forward ? stage : next);
      arrival = arrival_of({arrival}, problem_.message_time[cut], problem_.latency, channel).time;
    }
    const std::size_t cell = cell_of(next, num_microbatches, microbatch);
    (is_forward ? forward_in_ : gradient_in_)[cell] = arrival;
  }
  return true;
}

Order order_of(const Schedule& schedule) {
  const auto num_stages = static_cast<std::size_t>(schedule.num_stages());
  std::vector<int> done(num_stages * kCounts, 0);
  Order order(schedule.rows.size());
  bool is_one = true;
  const auto add = [&](std::size_t rank, const Action& action) {
    int* const counts = &done[static_cast<std::size_t>(action.stage) * kCounts];
    const auto next = [&](int what) {
      if (counts[what]++ != action.microbatch) is_one = false;
    };
    if (action.kind == ActionKind::kForward) next(0);
    if (makes_input_gradient(action.kind)) next(1);
    if (makes_weight_gradient(action.kind)) next(2);
    order[rank].push_back({static_cast<std::int16_t>(action.stage), action.kind});
  };
  for (std::size_t rank = 0; rank < schedule.rows.size(); ++rank) {
    for (const Action& action : schedule.rows[rank]) {
      if (action.kind == ActionKind::kOverlap) {
        add(rank, action.overlap_forward());
        add(rank, action.overlap_backward());
      } else if (is_compute(action.kind)) {
        add(rank, action);
      }
    }
  }
  for (const int count : done) is_one = is_one && count == schedule.num_microbatches;
  return is_one ? order : Order();
}

Schedule schedule_of(const Order& order, const StageMap& stage_map, int num_microbatches) {
  Schedule schedule;
  schedule.name = "searched";
  schedule.num_microbatches = num_microbatches;
  schedule.stage_map = stage_map;
  schedule.rows.resize(order.size());
  std::vector<int> done(cell_of(stage_map.num_stages(), kCounts, 0), 0);
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    for (const OrderStep& step : order[rank]) {
      int* const counts = &done[cell_of(step.stage, kCounts, 0)];
      Action action;
      action.kind = step.kind;
      action.stage = step.stage;
      if (step.kind == ActionKind::kForward) action.microbatch = counts[0]++;
      if (makes_weight_gradient(step.kind)) action.microbatch = counts[2]++;
      if (makes_input_gradient(step.kind)) action.microbatch = counts[1]++;
      schedule.rows[rank].push_back(action);
    }
  }
  return schedule;
}

}  // namespace sluice::detail
