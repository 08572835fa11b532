// An order of compute actions, and how long it takes: simulate() for orders that differ in little
// and are looked at by the hundred thousand.
//
// A row is a list of steps (stage, F / I / W / B) without microbatches: those of each stage and
// kind come in their order, so the k-th is of microbatch k. Thread-safety: an OrderTimer is one
// thread's.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "plan/predict/replay.h"
#include "sluice/schedule.h"
#include "sluice/simulate.h"

namespace sluice::detail {

inline constexpr double kNever = std::numeric_limits<double>::infinity();  // a time

struct OrderStep {
  std::int16_t stage = 0;
  ActionKind kind = ActionKind::kForward;  // or of a backward
  friend bool operator==(const OrderStep&, const OrderStep&) = default;
};
using Order = std::vector<std::vector<OrderStep>>;  // [rank]

// The question, the same for all orders.
struct OrderProblem {
  StageMap stage_map;
  int num_microbatches = 1;
  std::vector<StageCosts> stages;
  std::vector<double> message_time;  // time of a message over each cut
  double latency = 0;
  std::vector<double> speed;  // speed of each rank
  double max_bytes = 0;       // limit of a rank

  int num_ranks() const { return stage_map.num_ranks(); }
  int num_stages() const { return stage_map.num_stages(); }
  double cost(int rank, const OrderStep& step) const {
    return cost_of(step.kind, stages[static_cast<std::size_t>(step.stage)]) /
           speed[static_cast<std::size_t>(rank)];
  }
  double held_bytes(int rank) const;
};
// Throws Error(kUsage) for costs of another number of stages.
OrderProblem order_problem(const StageMap& stage_map, int num_microbatches, const Costs& costs,
                           double max_bytes);

// The merit of an order: smaller is better. Not finite: it cannot complete, or needs too much.
struct OrderMerit {
  double makespan = 0;
  double finish = 0;  // mean of the ranks: of equal orders, the one with less behind it
};

class OrderTimer {
 public:
  explicit OrderTimer(const OrderProblem& problem);
  OrderMerit time(const Order& order);
  // Steps looked at so far.
  std::int64_t num_steps() const { return num_steps_; }

 private:
  struct Rank {
    std::size_t at = 0;
    double free = 0;
    LiveBytes bytes;
  };
  bool run(int rank, const Order& order);

  const OrderProblem& problem_;
  std::vector<Rank> ranks_;
  std::vector<double> forward_in_, gradient_in_;  // [stage * microbatches + microbatch]: arrival
  std::vector<Instant> channels_;                 // [kind][from][to]: free again
  std::vector<int> done_;                         // [stage * 3 + what]: F, I or B, W or B
  std::int64_t num_steps_ = 0;
};

// The order of a schedule; empty: it is none of those that are looked for, for the microbatches of
// a stage come in another order, or not all actions are there.
Order order_of(const Schedule& schedule);
Schedule schedule_of(const Order& order, const StageMap& stage_map, int num_microbatches);

}  // namespace sluice::detail
