#include "plan/predict/replay.h"

#include <algorithm>
#include <cmath>

#include "plan/predict/costs.h"

namespace sluice::detail {
namespace {

using Step = Simulation::Step;

// Returns the action that ends last.
Step find_last(Simulation& result) {
  Step last{-1, -1};
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    const std::vector<TimedAction>& row = result.ranks[rank].actions;
    const double finish = row.empty() ? 0.0 : row.back().end;
    result.ranks[rank].finish = finish;
    if (row.empty() || (last.rank >= 0 && finish <= result.makespan)) continue;
    result.makespan = finish;
    last = {static_cast<int>(rank), static_cast<int>(row.size()) - 1};
  }
  return last;
}

double divide_idle_time(Simulation& result) {
  double idle = 0.0;
  for (RankTimeline& rank : result.ranks) {
    const std::vector<TimedAction>& row = rank.actions;
    rank.warmup = row.empty() ? result.makespan : row.front().start;
    rank.drain = row.empty() ? 0.0 : std::max(0.0, result.makespan - row.back().end - rank.update);
    const double all = result.makespan - rank.busy;
    rank.waiting = std::max(0.0, all - rank.warmup - rank.drain);
    idle += all;
  }
  return idle;
}

}  // namespace

void summarize(const Program& program, const Costs& costs,
               const std::vector<std::vector<Step>>& causes, const End& end, Simulation& result) {
  Step last = find_last(result);
  if (end.time > result.makespan) {
    result.makespan = end.time;
    last = end.cause;
  }
  if (costs.parallel_ranks > 0) {
    double busy = 0;
    for (const RankTimeline& rank : result.ranks) busy += rank.busy;
    result.makespan = std::max(result.makespan, busy / costs.parallel_ranks);
  }
  if (!std::isfinite(result.makespan)) {
    throw wrong_costs(costs, "the costs add up to more than a number can hold",
                      "use another unit of time");
  }
  const double idle = divide_idle_time(result);
  if (result.makespan > 0.0) {
    result.bubble_fraction = std::max(0.0, idle / (program.num_ranks() * result.makespan));
  }
  for (Step step = last; step.rank >= 0; step = causes[step.rank][step.index]) {
    result.critical_path.push_back(step);
  }
  std::reverse(result.critical_path.begin(), result.critical_path.end());
}

}  // namespace sluice::detail
