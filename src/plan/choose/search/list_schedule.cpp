#include "plan/choose/search/list_schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice::detail {
namespace {

class ListScheduler {
 public:
  ListScheduler(const OrderProblem& problem, const ListPolicy& policy)
      : problem_(problem), policy_(policy), num_microbatches_(problem.num_microbatches) {
    const auto num_ranks = static_cast<std::size_t>(problem.num_ranks());
    const auto num_stages = static_cast<std::size_t>(problem.num_stages());
    ranks_.resize(num_ranks);
    stages_.resize(num_stages);
    order_.resize(num_ranks);
    channels_.assign(2 * num_ranks * num_ranks, {});
    for (std::size_t s = 0; s < num_stages; ++s) {
      Rank& rank = ranks_[static_cast<std::size_t>(problem.stage_map.rank_of(static_cast<int>(s)))];
      rank.stages.push_back(static_cast<int>(s));
      const StageCosts& costs = problem.stages[s];
      rank.bytes_of_microbatch += std::max(costs.kept_bytes, costs.kept_after_input_bytes);
      rank.running_bytes = std::max(rank.running_bytes, costs.running_bytes);
      stages_[s].forward_in.assign(static_cast<std::size_t>(num_microbatches_), kNever);
      stages_[s].gradient_in.assign(static_cast<std::size_t>(num_microbatches_), kNever);
    }
    std::fill(stages_.front().forward_in.begin(), stages_.front().forward_in.end(), 0.0);
    for (std::size_t r = 0; r < num_ranks; ++r) {
      const double extra = policy.more_before * static_cast<double>(num_ranks - 1 - r);
      const double most = policy.most_in_flight + extra;
      ranks_[r].most_in_flight = std::max(1, static_cast<int>(std::lround(most)));
      ranks_[r].room =
          problem.max_bytes - problem.held_bytes(static_cast<int>(r)) - ranks_[r].running_bytes;
    }
  }

  Order make() {
    std::size_t left = 0;
    for (const Rank& rank : ranks_)
      left += 3 * rank.stages.size() * static_cast<std::size_t>(num_microbatches_);
    for (; left > 0; --left) {
      int rank = -1;
      double soonest = kNever;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const double start = soonest_start(static_cast<int>(r));
        if (start < soonest) {
          soonest = start;
          rank = static_cast<int>(r);
        }
      }
      if (rank < 0) return {};  // no rank has memory for its next action
      run(rank, choose(rank, soonest));
    }
    return std::move(order_);
  }

 private:
  struct Rank {
    std::vector<int> stages;
    double free = 0, room = 0, bytes_of_microbatch = 0, running_bytes = 0;
    int most_in_flight = 1;
  };
  struct Stage {
    std::vector<double> forward_in, gradient_in;  // arrival times, [microbatch]
    int forwards = 0, inputs = 0, weights = 0;    // completed microbatches
  };
  struct Choice {
    OrderStep step;
    double start = kNever;
  };

  bool may_begin(const Rank& rank, int stage) const {
    if (stage != rank.stages.front()) return true;  // the first stage has reserved the memory
    const Stage& first = stages_[static_cast<std::size_t>(stage)];
    int ended = num_microbatches_;
    for (const int each : rank.stages)
      ended = std::min(ended, stages_[static_cast<std::size_t>(each)].weights);
    if (first.forwards - ended >= rank.most_in_flight) return false;
    return (first.forwards - ended + 1) * rank.bytes_of_microbatch <= rank.room;
  }
  template <typename Visit>
  void visit_choices(int number, const Visit& visit) const {
    const Rank& rank = ranks_[static_cast<std::size_t>(number)];
    for (const int s : rank.stages) {
      const Stage& stage = stages_[static_cast<std::size_t>(s)];
      const auto offer = [&](ActionKind kind, double ready) {
        if (ready < kNever)
          visit(Choice{{static_cast<std::int16_t>(s), kind}, std::max(rank.free, ready)});
      };
      if (stage.forwards < num_microbatches_ && may_begin(rank, s))
        offer(ActionKind::kForward, stage.forward_in[static_cast<std::size_t>(stage.forwards)]);
      if (stage.inputs < stage.forwards)
        offer(ActionKind::kBackwardInput,
              stage.gradient_in[static_cast<std::size_t>(stage.inputs)]);
      if (stage.weights < stage.inputs) offer(ActionKind::kBackwardWeight, 0);
    }
  }

  double soonest_start(int rank) const {
    double soonest = kNever;
    visit_choices(rank, [&](const Choice& choice) { soonest = std::min(soonest, choice.start); });
    return soonest;
  }

  Choice choose(int rank, double soonest) const {
    Choice best;
    double best_liking = -kNever;
    visit_choices(rank, [&](const Choice& choice) {
      if (choice.start > soonest + policy_.look_ahead) return;
      const double liking = liking_of(choice, soonest);
      if (liking > best_liking) {
        best_liking = liking;
        best = choice;
      }
    });
    return best;
  }

  double liking_of(const Choice& choice, double soonest) const {
    double liking = 1000.0 * policy_.preference_of(choice.step.kind);
    const bool late_first = choice.step.kind != ActionKind::kForward || policy_.late_stages_first;
    liking += (late_first ? 1.0 : -1.0) * choice.step.stage;
    if (policy_.look_ahead > 0) liking -= 1e-3 * (choice.start - soonest) / policy_.look_ahead;
    return liking;
  }

  void run(int number, const Choice& choice) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    const int s = choice.step.stage;
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    rank.free = choice.start + problem_.cost(number, choice.step);
    order_[static_cast<std::size_t>(number)].push_back(choice.step);
    if (choice.step.kind == ActionKind::kBackwardWeight) {
      ++stage.weights;
      return;
    }
    const bool is_forward = choice.step.kind == ActionKind::kForward;
    const int microbatch = is_forward ? stage.forwards++ : stage.inputs++;
    const int next = is_forward ? s + 1 : s - 1;
    if (is_forward && next == problem_.num_stages())
      stage.gradient_in[static_cast<std::size_t>(microbatch)] = rank.free;
    if (next < 0 || next >= problem_.num_stages()) return;
    const int there = problem_.stage_map.rank_of(next);
    double arrival = rank.free;
    if (there != number) {
      const auto num_ranks = ranks_.size();
      Instant& channel =
          channels_[((is_forward ? 0 : num_ranks) + static_cast<std::size_t>(number)) * num_ranks +
                    static_cast<std::size_t>(there)];
      const auto cut = static_cast<std::size_t>(is_forward ? s : next);
      arrival = arrival_of({arrival}, problem_.message_time[cut], problem_.latency, channel).time;
    }
    Stage& to = stages_[static_cast<std::size_t>(next)];
    (is_forward ? to.forward_in : to.gradient_in)[static_cast<std::size_t>(microbatch)] = arrival;
  }

  const OrderProblem& problem_;
  const ListPolicy& policy_;
  const int num_microbatches_;
  std::vector<Rank> ranks_;
  std::vector<Stage> stages_;
  std::vector<Instant> channels_;
  Order order_;
};

}  // namespace

std::vector<ListPolicy> list_policies(const OrderProblem& problem) {
  double longest = 0;
  for (const StageCosts& stage : problem.stages)
    longest = std::max({longest, stage.forward, stage.backward_input, stage.backward_weight});
  const int per_rank = problem.stage_map.stages_per_rank();
  std::vector<int> in_flight;
  for (const int each : {1, 2, per_rank + 1, problem.num_ranks(), 2 * problem.num_ranks(),
                         problem.num_microbatches}) {
    const int most = std::clamp(each, 1, problem.num_microbatches);
    if (std::find(in_flight.begin(), in_flight.end(), most) == in_flight.end())
      in_flight.push_back(most);
  }
  std::vector<ListPolicy> policies;
  for (const std::array<int, 3>& preference : {std::array<int, 3>{1, 2, 0}, {2, 1, 0}, {0, 2, 1}}) {
    for (const bool late : {true, false}) {
      for (const double share : {0.0, 0.3, 1.0}) {
        for (const int most : in_flight) {
          for (const double more : {0.0, 1.0, 2.0})
            policies.push_back({.preference = preference,
                                .late_stages_first = late,
                                .look_ahead = share * longest,
                                .most_in_flight = most,
                                .more_before = more});
        }
      }
    }
  }
  return policies;
}

Order list_schedule(const OrderProblem& problem, const ListPolicy& policy) {
  return ListScheduler(problem, policy).make();
}

}  // namespace sluice::detail
