// The path of each microbatch through the stages.
//
// A route lists stages in the order of their forwards; the last one computes the loss. By default
// all microbatches take the chain 0, 1, .. num_stages - 1. Every stage is on a route. No route has
// a stage twice. Stages relay values that later stages read.
//
// A stage on several ranks counts as one stage per rank. DualPipe over P ranks has the routes 0 ..
// P-1 and P .. 2P-1, whose stages s and P + s are copies on ranks s and P-1-s with tied weights.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

enum class ChannelKind : std::uint8_t { kActivation, kGradient };

enum class StageBackward : std::uint8_t {
  kFull,
  kInput,    // input gradients only: no weight is trained
  kWeights,  // weight gradients only: no earlier stage trains
  kNone,     // no backward
};

constexpr bool passes_gradients_on(StageBackward backward) {
  return backward == StageBackward::kFull || backward == StageBackward::kInput;
}
constexpr bool has_weight_gradients(StageBackward backward) {
  return backward == StageBackward::kFull || backward == StageBackward::kWeights;
}

class Flow {
 public:
  static constexpr int kNone = -1;

  Flow() = default;
  static Flow chain(int num_stages);
  // routes[i] lists the stages of route i, and route_of[m] is the route of microbatch m. Throws
  // Error(kUsage) for invalid routes.
  static Flow along(const std::vector<std::vector<int>>& routes, std::vector<int> route_of);

  int num_stages() const { return num_stages_; }
  bool covers(int num_microbatches) const;

  // Cut s between stages follows stage s.
  int num_cuts() const;
  int num_passing(int stage, int num_microbatches) const;

  // Arguments must be in range. A stage off the microbatch's route has neither producer nor
  // consumer.
  bool passes(int stage, int microbatch) const {
    return is_chain() || step_of(stage, microbatch).is_passed;
  }
  // The stage that sends its activation to `stage`. kNone: the microbatch starts here.
  int producer(int stage, int microbatch) const {
    return is_chain() ? stage - 1 : step_of(stage, microbatch).producer;
  }
  // The stage that receives the activation of `stage`. kNone: the loss is computed here.
  int consumer(int stage, int microbatch) const {
    if (is_chain()) return stage + 1 < num_stages_ ? stage + 1 : kNone;
    return step_of(stage, microbatch).consumer;
  }
  int source(ChannelKind kind, int stage, int microbatch) const {
    return kind == ChannelKind::kActivation ? producer(stage, microbatch)
                                            : consumer(stage, microbatch);
  }
  int destination(ChannelKind kind, int stage, int microbatch) const {
    return kind == ChannelKind::kActivation ? consumer(stage, microbatch)
                                            : producer(stage, microbatch);
  }

  int first_stage(int microbatch) const { return is_chain() ? 0 : route_of(microbatch).first; }
  int last_stage(int microbatch) const {
    return is_chain() ? num_stages_ - 1 : route_of(microbatch).last;
  }
  bool is_first(int stage, int microbatch) const { return stage == first_stage(microbatch); }
  bool is_last(int stage, int microbatch) const { return stage == last_stage(microbatch); }

 private:
  struct Step {
    int producer = kNone, consumer = kNone;
    bool is_passed = false;
  };
  struct Route {
    int first = kNone, last = kNone;
    std::vector<Step> steps;
  };

  bool is_chain() const { return routes_.empty(); }
  const Route& route_of(int microbatch) const {
    return routes_[route_of_.empty() ? 0 : route_of_[microbatch]];
  }
  const Step& step_of(int stage, int microbatch) const { return route_of(microbatch).steps[stage]; }

  int num_stages_ = 0;
  std::vector<Route> routes_;  // empty for the chain
  std::vector<int> route_of_;  // by microbatch; empty if all take routes_[0]
};

}  // namespace sluice
