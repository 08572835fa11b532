// Orders of each rank's forwards and backwards, and a timer that is faster than simulate(). The
// search times hundreds of thousands of orders.
//
// Steps have no microbatch number. The k-th step of a stage and kind belongs to microbatch k.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "plan/predict/replay.h"
#include "sluice/schedule.h"
#include "sluice/simulate.h"

namespace sluice::detail {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct OrderStep {
  std::int16_t stage = 0;
  ActionKind kind = ActionKind::kForward;
  friend bool operator==(const OrderStep&, const OrderStep&) = default;
};
using Order = std::vector<std::vector<OrderStep>>;  // [rank]

struct OrderProblem {
  StageMap stage_map;
  int num_microbatches = 1;
  std::vector<StageCosts> stages;
  std::vector<double> message_time;  // [cut between stages]: time to send its value
  double latency = 0;
  std::vector<double> speed;  // [rank]
  double max_bytes = 0;       // memory limit per rank

  int num_ranks() const { return stage_map.num_ranks(); }
  int num_stages() const { return stage_map.num_stages(); }
  double cost(int rank, const OrderStep& step) const {
    return cost_of(step.kind, stages[static_cast<std::size_t>(step.stage)]) /
           speed[static_cast<std::size_t>(rank)];
  }
  double held_bytes(int rank) const;
};
// Throws Error(kUsage) for a stage without a rank, no microbatch, or costs of another number of
// stages.
OrderProblem order_problem(const StageMap& stage_map, int num_microbatches, const Costs& costs,
                           double max_bytes);

// Smaller is better. Infinite if the order cannot complete or needs too much memory.
struct OrderMerit {
  double makespan = 0;
  double finish = 0;  // mean finish time of the ranks; breaks ties
};

class OrderTimer {
 public:
  explicit OrderTimer(const OrderProblem& problem);
  OrderMerit time(const Order& order);
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
  std::vector<double> forward_in_, gradient_in_;  // [stage * num_microbatches + microbatch]
  std::vector<Instant> channels_;                 // [kind][from rank][to rank]: time when free
  std::vector<int> done_;                         // [stage * 3 + k]: completed F, I or B, W or B
  std::int64_t num_steps_ = 0;
};

// Returns an empty order if actions are missing or not in microbatch order.
Order order_of(const Schedule& schedule);
Schedule schedule_of(const Order& order, const StageMap& stage_map, int num_microbatches);

}  // namespace sluice::detail
