// A simple reference interpreter, with which tests compare verify(). It shares no code with
// src/plan.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sluice/program.h"

namespace sluice::testing {

class Interpreter {
 public:
  explicit Interpreter(const Program& program) : p_(program) {
    for (const auto& row : p_.ranks) {
      for (const Action& a : row) {
        transfers_ |= a.kind == K::kSendForward || a.kind == K::kRecvForward ||
                      a.kind == K::kSendBackward || a.kind == K::kRecvBackward;
        sharded_ |= a.kind == K::kUnshard || a.kind == K::kReshard;
        reduces_ |= a.kind == K::kReduceGrad;
        reduces_single_ |= a.kind == K::kReduceGrad && a.microbatch >= 0;
        loss_ |= a.kind == K::kReduceLoss;
        output_ |= a.kind == K::kGatherOutputs;
        norm_ |= a.kind == K::kReduceNorm;
        optimizer_ |= a.kind == K::kOptimizerStep;
      }
    }
  }

  // Returns true if every instruction is legal where it runs, all rows finish, and no value is left
  // over.
  bool accepts() {
    std::vector<std::size_t> at(p_.ranks.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < at.size(); ++rank) {
        if (at[rank] == p_.ranks[rank].size()) continue;
        const Outcome outcome = run(static_cast<int>(rank), p_.ranks[rank][at[rank]]);
        if (outcome == kWrong) return false;
        if (outcome == kDone) {
          ++at[rank];
          moved = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < at.size(); ++rank) {
      if (at[rank] != p_.ranks[rank].size()) return false;  // deadlock
    }
    return nothing_left();
  }

 private:
  using K = ActionKind;
  using Value = std::pair<int, int>;  // stage that uses it, microbatch
  enum Outcome { kDone, kWaits, kWrong };
  enum Kind { kActivation, kGradient };

  int owner(int stage) const { return p_.stage_map.rank_of(stage); }
  bool exists(int stage) const { return stage >= 0 && stage < p_.num_stages(); }
  bool valid(const Action& a) const {
    return exists(a.stage) && a.microbatch >= 0 && a.microbatch < p_.num_microbatches;
  }

  Outcome run(int rank, const Action& a) {
    switch (a.kind) {
      case K::kOverlap: {
        const Action f = Action::forward(a.stage, a.microbatch);
        Action b = Action::make(a.backward_kind, a.backward_stage, a.backward_microbatch);
        const Outcome first = ready(rank, f), second = ready(rank, b);
        if (first == kWrong || second == kWrong) return kWrong;
        if (first == kWaits || second == kWaits) return kWaits;
        compute(rank, f);
        compute(rank, b);
        return kDone;
      }
      case K::kForward:
      case K::kBackward:
      case K::kBackwardInput:
      case K::kBackwardWeight: {
        const Outcome outcome = ready(rank, a);
        if (outcome == kDone) compute(rank, a);
        return outcome;
      }
      case K::kSendForward:
        return send(rank, a, kActivation, a.stage + 1);
      case K::kSendBackward:
        return send(rank, a, kGradient, a.stage - 1);
      case K::kRecvForward:
        return receive(rank, a, kActivation, a.stage - 1);
      case K::kRecvBackward:
        return receive(rank, a, kGradient, a.stage + 1);
      case K::kUnshard:
        if (!exists(a.stage) || owner(a.stage) != rank) return kWrong;
        return gathered_.insert(a.stage).second ? kDone : kWrong;
      case K::kReshard:
        if (!exists(a.stage) || owner(a.stage) != rank) return kWrong;
        return gathered_.erase(a.stage) ? kDone : kWrong;
      case K::kReduceGrad:
        if (!exists(a.stage) || owner(a.stage) != rank || p_.forward_only) return kWrong;
        if (ended_.count({rank, K::kReduceNorm}) || ended_.count({rank, K::kOptimizerStep})) {
          return kWrong;
        }
        if (reduces_single_) {
          const Value own{a.stage, a.microbatch};
          return weight_gradient_.count(own) && single_.insert(own).second ? kDone : kWrong;
        }
        if (weights_done(a.stage) != p_.num_microbatches) return kWrong;
        return reduced_.insert(a.stage).second ? kDone : kWrong;
      case K::kReduceTied:
        return reduce_tied(rank, a);
      case K::kReduceLoss:
        return learn_of_outputs(rank, K::kReduceLoss, -2);
      case K::kGatherOutputs:
        return learn_of_outputs(rank, K::kGatherOutputs, -3);
      case K::kReduceNorm:
        return reduce_norm(rank);
      case K::kOptimizerStep:
        if (p_.forward_only || !all_gradients(rank)) return kWrong;
        return ended_.insert({rank, K::kOptimizerStep}).second ? kDone : kWrong;
      default:
        return kWrong;
    }
  }

  Outcome ready(int rank, const Action& a) {
    if (!valid(a) || owner(a.stage) != rank) return kWrong;
    if (ended_.count({rank, K::kOptimizerStep})) return kWrong;
    if (p_.forward_only && a.kind != K::kForward) return kWrong;
    if (sharded_ && !gathered_.count(a.stage)) return kWrong;
    const Value own{a.stage, a.microbatch};
    if (a.kind == K::kForward) {
      if (forward_.count(own)) return kWrong;
      return a.stage == 0 ? kDone : input(rank, own, kActivation, a.stage - 1);
    }
    if (a.kind != K::kBackwardInput && ended_.count({rank, K::kReduceNorm})) return kWrong;
    if (a.kind == K::kBackwardWeight) {
      return input_gradient_.count(own) && !weight_gradient_.count(own) ? kDone : kWrong;
    }
    if (!forward_.count(own) || input_gradient_.count(own)) return kWrong;
    return a.stage + 1 == p_.num_stages() ? kDone : input(rank, own, kGradient, a.stage + 1);
  }

  // Inputs from this rank or from a message must be present. Without messages the rank waits for
  // them.
  Outcome input(int rank, Value own, Kind kind, int from_stage) const {
    if (inputs_.count({own, kind})) return kDone;
    return transfers_ || owner(from_stage) == rank ? kWrong : kWaits;
  }

  void compute(int rank, const Action& a) {
    const Value own{a.stage, a.microbatch};
    if (a.kind == K::kForward) {
      forward_.insert(own);
      inputs_.erase({own, kActivation});
      hand_over(rank, a, kActivation, a.stage + 1);
    }
    if (a.kind == K::kBackward || a.kind == K::kBackwardInput) {
      input_gradient_.insert(own);
      inputs_.erase({own, kGradient});
      hand_over(rank, a, kGradient, a.stage - 1);
    }
    if (a.kind == K::kBackward || a.kind == K::kBackwardWeight) weight_gradient_.insert(own);
  }

  void hand_over(int rank, const Action& a, Kind kind, int to_stage) {
    if (!exists(to_stage)) return;
    const std::pair<Value, Kind> value{{to_stage, a.microbatch}, kind};
    if (owner(to_stage) == rank || !transfers_)
      inputs_.insert(value);
    else
      outputs_.insert(value);
  }

  Outcome send(int rank, const Action& a, Kind kind, int to_stage) {
    if (!valid(a) || owner(a.stage) != rank || !exists(to_stage)) return kWrong;
    if (p_.forward_only && kind == kGradient) return kWrong;
    const Value value{to_stage, a.microbatch};
    // never produced, already sent, or not for sending
    if (!outputs_.erase({value, kind})) return kWrong;
    channels_[{rank, owner(to_stage), kind}].push_back(value);
    return kDone;
  }

  Outcome receive(int rank, const Action& a, Kind kind, int from_stage) {
    if (!valid(a) || owner(a.stage) != rank || !exists(from_stage)) return kWrong;
    if (owner(from_stage) == rank || (p_.forward_only && kind == kGradient)) return kWrong;
    std::deque<Value>& channel = channels_[{owner(from_stage), rank, kind}];
    const Value value{a.stage, a.microbatch};
    if (channel.empty() || channel.front() != value) return kWaits;
    channel.pop_front();
    return inputs_.insert({value, kind}).second ? kDone : kWrong;
  }

  int weights_done(int stage) const {
    int count = 0;
    for (const Value& value : weight_gradient_) count += value.first == stage;
    return count;
  }
  bool all_gradients(int rank) const {
    for (int stage = 0; stage < p_.num_stages(); ++stage) {
      if (owner(stage) == rank && weights_done(stage) != p_.num_microbatches) return false;
    }
    return true;
  }

  Outcome reduce_tied(int rank, const Action& a) {
    if (a.group < 0 || a.group >= static_cast<int>(p_.tie_groups.size())) return kWrong;
    if (p_.forward_only || ended_.count({rank, K::kReduceNorm})) return kWrong;
    if (ended_.count({rank, K::kOptimizerStep})) return kWrong;
    std::set<int> members;
    for (const int stage : p_.tie_groups[a.group].stages) {
      members.insert(owner(stage));
      if (owner(stage) != rank) continue;
      if (weights_done(stage) != p_.num_microbatches) return kWrong;
      if (reduces_ && !is_reduced(stage)) return kWrong;
    }
    if (!members.count(rank)) return kWrong;
    return gather(rank, a.group, members);
  }

  std::set<int> all_ranks() const {
    std::set<int> ranks;
    for (int each = 0; each < p_.num_ranks(); ++each) ranks.insert(each);
    return ranks;
  }

  bool is_reduced(int stage) const {
    if (!reduces_single_) return reduced_.count(stage) > 0;
    int count = 0;
    for (const Value& value : single_) count += value.first == stage;
    return count == p_.num_microbatches;
  }

  // Available once the rank's forwards of the last stage are done.
  Outcome learn_of_outputs(int rank, K kind, int group) {
    if (ended_.count({rank, K::kOptimizerStep})) return kWrong;
    const int last = p_.num_stages() - 1;
    for (int mb = 0; mb < p_.num_microbatches; ++mb) {
      if (owner(last) == rank && !forward_.count({last, mb})) return kWrong;
    }
    const Outcome outcome = gather(rank, group, all_ranks());
    if (outcome == kDone) ended_.insert({rank, kind});
    return outcome;
  }

  Outcome reduce_norm(int rank) {
    if (p_.forward_only || !all_gradients(rank)) return kWrong;
    if (ended_.count({rank, K::kOptimizerStep})) return kWrong;
    const Outcome outcome = gather(rank, -1, all_ranks());
    if (outcome == kDone) ended_.insert({rank, K::kReduceNorm});
    return outcome;
  }

  // Each member may arrive only once.
  Outcome gather(int rank, int group, const std::set<int>& members) {
    if (passed_.count({group, rank})) return kWrong;
    arrived_[group].insert(rank);
    if (arrived_[group] != members) return kWaits;
    passed_.insert({group, rank});
    return kDone;
  }

  bool nothing_left() const {
    const std::size_t pairs =
        static_cast<std::size_t>(p_.num_stages()) * static_cast<std::size_t>(p_.num_microbatches);
    if (forward_.size() != pairs) return false;
    if (!p_.forward_only && (input_gradient_.size() != pairs || weight_gradient_.size() != pairs)) {
      return false;
    }
    for (const auto& channel : channels_) {
      if (!channel.second.empty()) return false;
    }
    if (!inputs_.empty() || !outputs_.empty() || !gathered_.empty()) return false;
    for (int stage = 0; reduces_ && stage < p_.num_stages(); ++stage) {
      if (!is_reduced(stage)) return false;
    }
    for (std::size_t group = 0; group < p_.tie_groups.size(); ++group) {
      if (p_.tie_groups[group].stages.size() < 2) continue;
      for (const int stage : p_.tie_groups[group].stages) {
        if (!passed_.count({static_cast<int>(group), owner(stage)})) return false;
      }
    }
    for (int rank = 0; rank < p_.num_ranks(); ++rank) {
      if (loss_ && !ended_.count({rank, K::kReduceLoss})) return false;
      if (output_ && !ended_.count({rank, K::kGatherOutputs})) return false;
      if (norm_ && !ended_.count({rank, K::kReduceNorm})) return false;
      if (optimizer_ && !ended_.count({rank, K::kOptimizerStep})) return false;
    }
    return true;
  }

  const Program& p_;
  bool transfers_ = false, sharded_ = false, reduces_ = false, reduces_single_ = false,
       loss_ = false, output_ = false, norm_ = false, optimizer_ = false;
  std::set<Value> forward_, input_gradient_, weight_gradient_;
  std::set<std::pair<Value, Kind>> inputs_;   // keyed by the stage that uses them
  std::set<std::pair<Value, Kind>> outputs_;  // waiting to be sent to the stage that uses them
  std::map<std::tuple<int, int, Kind>, std::deque<Value>> channels_;
  std::set<int> gathered_, reduced_;
  std::set<Value> single_;  // reduced individually
  std::set<std::pair<int, K>> ended_;
  std::map<int, std::set<int>> arrived_;
  std::set<std::pair<int, int>> passed_;
};

// Explores every state that some timing reaches. Only for small programs.
class ChannelExplorer {
 public:
  explicit ChannelExplorer(const Program& program) : p_(program) {}

  int max_in_flight() {
    std::set<State> seen;
    std::vector<State> todo = {State(p_.ranks.size(), 0)};
    seen.insert(todo.front());
    int largest = 0;
    while (!todo.empty()) {
      const State state = todo.back();
      todo.pop_back();
      for (const auto& [channel, count] : occupancy(state)) largest = std::max(largest, count);
      for (std::size_t rank = 0; rank < state.size(); ++rank) {
        if (!can_step(state, rank, /*capacity=*/-1)) continue;
        State next = state;
        ++next[rank];
        if (seen.insert(next).second) todo.push_back(next);
      }
    }
    return largest;
  }

  int required_capacity() {
    for (int capacity = 0;; ++capacity) {
      State state(p_.ranks.size(), 0);
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t rank = 0; rank < state.size(); ++rank) {
          if (!can_step(state, rank, capacity)) continue;
          ++state[rank];
          moved = true;
        }
      }
      bool finished = true;
      for (std::size_t rank = 0; rank < state.size(); ++rank) {
        finished = finished && state[rank] == p_.ranks[rank].size();
      }
      if (finished) return capacity;
    }
  }

 private:
  using State = std::vector<std::size_t>;  // instructions that each rank has run
  using ChannelKey = std::tuple<int, int, bool>;

  static bool is_send(ActionKind kind) {
    return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
  }
  static bool is_recv(ActionKind kind) {
    return kind == ActionKind::kRecvForward || kind == ActionKind::kRecvBackward;
  }
  static bool is_meeting(ActionKind kind) {
    return kind == ActionKind::kReduceTied || kind == ActionKind::kReduceLoss ||
           kind == ActionKind::kGatherOutputs || kind == ActionKind::kReduceNorm;
  }

  ChannelKey channel(const Action& a) const {
    const int here = p_.stage_map.rank_of(a.stage);
    switch (a.kind) {
      case ActionKind::kSendForward:
        return {here, p_.stage_map.rank_of(a.stage + 1), true};
      case ActionKind::kRecvForward:
        return {p_.stage_map.rank_of(a.stage - 1), here, true};
      case ActionKind::kSendBackward:
        return {here, p_.stage_map.rank_of(a.stage - 1), false};
      default:
        return {p_.stage_map.rank_of(a.stage + 1), here, false};
    }
  }

  std::map<ChannelKey, int> occupancy(const State& state) const {
    std::map<ChannelKey, int> held;
    for (std::size_t rank = 0; rank < state.size(); ++rank) {
      for (std::size_t i = 0; i < state[rank]; ++i) {
        const Action& a = p_.ranks[rank][i];
        if (is_send(a.kind)) ++held[channel(a)];
        if (is_recv(a.kind)) --held[channel(a)];
      }
    }
    return held;
  }

  // Whether the rank has reached this collective. True for ranks that are not members.
  bool is_here(const State& state, std::size_t rank, const Action& meeting) const {
    for (std::size_t i = 0; i < p_.ranks[rank].size(); ++i) {
      if (p_.ranks[rank][i] == meeting) return state[rank] >= i;
    }
    return true;
  }

  bool can_step(const State& state, std::size_t rank, int capacity) const {
    if (state[rank] == p_.ranks[rank].size()) return false;
    const Action& a = p_.ranks[rank][state[rank]];
    if (is_send(a.kind)) return capacity < 0 || occupancy(state)[channel(a)] < capacity;
    if (is_recv(a.kind)) return occupancy(state)[channel(a)] > 0;
    if (is_meeting(a.kind)) {
      for (std::size_t other = 0; other < state.size(); ++other) {
        if (!is_here(state, other, a)) return false;
      }
    }
    return true;
  }

  const Program& p_;
};

}  // namespace sluice::testing
