// The stages that a microbatch passes, in order: the producer and the consumer of each.
//
// A microbatch takes a *route*: stages in the order of their forwards. A stage's activation goes to
// the next stage of the route, its input gradient to the one before; the last of the route computes
// the loss. By default all microbatches take one route, the chain 0, 1, .. num_stages - 1.
//
// A stage that lives on several ranks counts here as one stage on each, and every route passes one
// of them: with two directions through P ranks (DualPipe), routes 0 .. P-1 and P .. 2P-1, where
// stages s and P + s have the same content on ranks s and P-1-s, and their weights are tie groups
// (program.h).
//
// Invariants:
//  1. A stage is on a route at most once, so for one microbatch it has at most one producer and one
//     consumer. Stages between relay a value that later stages read.
//  2. Every stage is on some route.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

// A channel is one FIFO per source rank, destination rank and kind.
enum class ChannelKind : std::uint8_t { kActivation, kGradient };

// The gradients that the backward of a stage has to compute, depending on what is trained.
enum class StageBackward : std::uint8_t {
  kFull,     // gradients of its input and of its weights
  kInput,    // no weight of it is trained: it only passes gradients on
  kWeights,  // nothing before it is trained: its input needs no gradient
  kNone,     // it has no backward, and nothing is sent back to it
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

  Flow() = default;  // no stages
  static Flow chain(int num_stages);
  // routes[i]: the stages of a route. route_of[m]: index of the route of microbatch m. Throws
  // Error(kUsage) for an empty route, a stage that is on a route twice or on none, and for stages
  // and routes that do not exist.
  static Flow along(const std::vector<std::vector<int>>& routes, std::vector<int> route_of);

  int num_stages() const { return num_stages_; }
  // True if it has routes for this many microbatches.
  bool covers(int num_microbatches) const;

  // The number of cuts. A cut follows a stage that has a consumer, and has its number, so this is
  // one more than the last such stage: num_stages - 1 in the chain.
  int num_cuts() const;
  // The number of the first num_microbatches that pass the stage.
  int num_passing(int stage, int num_microbatches) const;

  // Preconditions: stage and microbatch in range. A stage that the microbatch does not pass has
  // kNone for producer and consumer.
  bool passes(int stage, int microbatch) const {
    return is_chain() || step_of(stage, microbatch).is_passed;
  }
  // The stage whose activation this one takes; kNone: the microbatch starts here.
  int producer(int stage, int microbatch) const {
    return is_chain() ? stage - 1 : step_of(stage, microbatch).producer;
  }
  // The stage that takes this one's activation; kNone: the loss is computed here.
  int consumer(int stage, int microbatch) const {
    if (is_chain()) return stage + 1 < num_stages_ ? stage + 1 : kNone;
    return step_of(stage, microbatch).consumer;
  }
  // The same for either kind of channel: the stage that this one receives from, and the one it
  // sends to.
  int source(ChannelKind kind, int stage, int microbatch) const {
    return kind == ChannelKind::kActivation ? producer(stage, microbatch)
                                            : consumer(stage, microbatch);
  }
  int destination(ChannelKind kind, int stage, int microbatch) const {
    return kind == ChannelKind::kActivation ? consumer(stage, microbatch)
                                            : producer(stage, microbatch);
  }

  // The stage where a microbatch starts, and the one that computes its loss.
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
    std::vector<Step> steps;  // by stage
  };

  bool is_chain() const { return routes_.empty(); }
  const Route& route_of(int microbatch) const {
    return routes_[route_of_.empty() ? 0 : route_of_[microbatch]];
  }
  const Step& step_of(int stage, int microbatch) const { return route_of(microbatch).steps[stage]; }

  int num_stages_ = 0;
  std::vector<Route> routes_;  // empty: the chain
  std::vector<int> route_of_;  // by microbatch; empty: all take the first
};

}  // namespace sluice
