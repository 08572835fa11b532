// Each rank runs until an input is missing, and continues once its arrival time is known. The order
// in which we visit ranks therefore does not matter.
#include "sluice/simulate.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "plan/action_kinds.h"
#include "plan/neighbours.h"
#include "plan/predict/costs.h"
#include "plan/predict/replay.h"
#include "plan/stage_microbatch_table.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using detail::PerKind;
using Step = Simulation::Step;
constexpr double kUnknown = -1.0;

// A time, and the compute action that determined it (rank -1: none).
struct Moment {
  double time = 0.0;
  Step cause{-1, -1};
};

struct Input {
  Moment arrival{kUnknown, {-1, -1}};
  bool is_received = false;  // whether its RECV has run
};

struct Work {
  PerKind<Input> inputs;
  PerKind<Moment> results;
  PerKind<std::int32_t> made_by{{-1, -1}};  // instruction; -1: not computed yet
};
constexpr ChannelKind kActivation = ChannelKind::kActivation;
constexpr ChannelKind kGradient = ChannelKind::kGradient;

class Simulator {
 public:
  Simulator(const Program& program, const Costs& costs)
      : program_(program),
        costs_(costs),
        with_transfers_(detail::holds_transfers(program)),
        work_(program),
        ranks_(program.ranks.size()),
        collectives_(static_cast<std::size_t>(detail::num_collectives(program))) {
    const std::size_t count = program.ranks.size();
    result_.ranks.resize(count);
    for (int stage = 0; stage < program.num_stages(); ++stage) {
      const StageCosts& stage_costs = costs_of(stage);
      const int rank = program.stage_map.rank_of(stage);
      if (rank >= 0) ranks_[rank].bytes.hold(stage_costs.held_bytes);
    }
    for (std::size_t rank = 0; rank < count; ++rank) {
      result_.ranks[rank].live.reserve(program.ranks[rank].size());
    }
    causes_.resize(count);
  }

  Simulation run() {
    for (int rank = program_.num_ranks() - 1; rank >= 0; --rank) runnable_.push_back(rank);
    while (!runnable_.empty()) {
      const int rank = runnable_.back();
      runnable_.pop_back();
      ranks_[rank].is_queued = false;
      while (ranks_[rank].at < program_.ranks[rank].size() && try_run(rank)) ++ranks_[rank].at;
      if (ranks_[rank].at < program_.ranks[rank].size()) continue;
      ranks_[rank].is_done = try_wait(rank, [](const Action&) { return true; });
    }
    require_finished();
    Moment end;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      end = detail::later(end, ranks_[rank].free);
      result_.ranks[rank].peak_bytes = ranks_[rank].bytes.peak;
    }
    detail::summarize(program_, costs_, causes_, {end.time, end.cause}, result_);
    return std::move(result_);
  }

 private:
  // An asynchronous transfer or collective that its rank has not waited for.
  struct Post {
    Action action;
    Moment end;  // kUnknown for collectives between pipeline ranks
  };
  struct IdleWork {
    Action action;
    double left = 0.0;
  };
  struct Rank {
    std::size_t at = 0;
    bool forward_half_done = false;  // of the overlapped pair at `at`
    bool is_done = false;            // all instructions and transfers have ended
    Moment free;
    std::vector<Post> posts;
    std::vector<IdleWork> idle_works;
    std::vector<int> updated;
    Moment unshard_free, reduce_free;  // when the rank's next UNSHARD or REDUCE_GRAD may start
    std::int32_t last_compute = -1;
    int live = 0, live_until_grad_input = 0;
    detail::LiveBytes bytes;
    bool is_queued = true;
  };
  struct Collective {
    std::vector<int> arrived;
    Moment begin;  // when the last member arrived
    Moment end{kUnknown, {-1, -1}};
  };

  Work& work(const Action& half) { return work_.at({half.stage, half.microbatch}); }

  void wake(int rank) {
    if (ranks_[rank].is_queued) return;
    ranks_[rank].is_queued = true;
    runnable_.push_back(rank);
  }

  bool try_run(int rank) {
    const Action& action = program_.ranks[rank][ranks_[rank].at];
    end_idle_works(rank, action);
    if (!try_wait(rank, [&](const Action& post) { return detail::uses(program_, action, post); })) {
      return false;
    }
    bool done = true;
    if (action.kind == ActionKind::kOverlap) {
      Rank& state = ranks_[rank];
      if (!state.forward_half_done) {
        state.forward_half_done = try_compute(rank, action.overlap_forward());
      }
      done = state.forward_half_done && try_compute(rank, action.overlap_backward());
      if (done) state.forward_half_done = false;
    } else if (is_compute(action.kind)) {
      done = try_compute(rank, action);
    } else if (detail::is_send(action.kind)) {
      done = try_send(rank, action);
    } else if (detail::is_recv(action.kind)) {
      work(action).inputs[detail::channel_kind_of(action.kind)].is_received = true;
    } else if (detail::is_collective(action.kind)) {
      done = meet(rank, action);
    } else if (action.kind == ActionKind::kPartialNorm) {
      ranks_[rank].idle_works.push_back(
          {action, at_speed(rank, costs_of(action.stage).partial_norm)});
    } else if (action.kind == ActionKind::kUpdate) {
      update(rank, action.stage);
    } else if (action.kind == ActionKind::kOptimizerStep) {
      update_rest(rank);
    } else if (is_post(action.kind)) {
      begin_alone(rank, action);
    }
    if (done) result_.ranks[rank].live.push_back(ranks_[rank].live);
    return done;
  }

  // Returns kUnknown if an input's arrival is not known yet.
  Moment inputs_ready(int rank, const Action& half) {
    Work& own = work(half);
    if (half.kind == ActionKind::kBackwardWeight)
      return own.made_by[kGradient] < 0 ? never() : Moment();
    const ChannelKind kind = detail::channel_kind_of(half.kind);
    if (kind == kGradient && own.made_by[kActivation] < 0) return never();
    const int neighbour = program_.flow.source(kind, half.stage, half.microbatch);
    const int there = program_.stage_map.rank_of(neighbour);
    if (there < 0) return {};
    const bool needs_recv = with_transfers_ && there != rank;
    const Input& input = own.inputs[kind];
    return needs_recv && !input.is_received ? never() : input.arrival;
  }
  static Moment never() { return {kUnknown, {-1, -1}}; }

  bool try_compute(int rank, const Action& half) {
    const Moment ready = inputs_ready(rank, half);
    if (ready.time == kUnknown) return false;
    Rank& state = ranks_[rank];
    const bool waits = ready.time > state.free.time;
    if (waits) spend_idle(rank, ready.time - state.free.time);
    const double start = waits ? ready.time : state.free.time;
    const double end = start + duration(rank, half);
    causes_[rank].push_back(waits ? ready.cause : state.free.cause);
    RankTimeline& timeline = result_.ranks[rank];
    timeline.actions.push_back({half, start, end});
    timeline.busy += end - start;
    const int index = static_cast<int>(timeline.actions.size()) - 1;
    state.free = {end, {rank, index}};
    state.last_compute = static_cast<std::int32_t>(state.at);
    count_live(rank, half);
    if (half.kind != ActionKind::kBackwardWeight) hand_over(rank, half);
    return true;
  }

  const StageCosts& costs_of(int stage) const {
    return costs_.per_stage.empty() ? costs_.uniform : costs_.per_stage[stage];
  }

  double duration(int rank, const Action& half) const {
    const StageCosts& costs = costs_of(half.stage);
    return at_speed(rank, detail::cost_of(half.kind, costs) + costs_.action);
  }
  double at_speed(int rank, double cost) const {
    return costs_.rank_speed.empty() ? cost : cost / costs_.rank_speed[rank];
  }

  void update(int rank, int stage) {
    const double cost = at_speed(rank, costs_of(stage).optimizer_step);
    ranks_[rank].free.time += cost;
    ranks_[rank].updated.push_back(stage);
    result_.ranks[rank].busy += cost;
    result_.ranks[rank].update += cost;
  }

  void update_rest(int rank) {
    const std::vector<int> updated = ranks_[rank].updated;
    for (int stage = 0; stage < program_.num_stages(); ++stage) {
      if (program_.stage_map.rank_of(stage) != rank) continue;
      if (std::find(updated.begin(), updated.end(), stage) == updated.end()) update(rank, stage);
    }
  }

  // Lets pending PARTIAL_NORMs run during idle time.
  void spend_idle(int rank, double time) {
    std::vector<IdleWork>& works = ranks_[rank].idle_works;
    while (!works.empty() && time > 0.0) {
      const double spent = std::min(time, works.front().left);
      time -= spent;
      works.front().left -= spent;
      if (works.front().left > 0.0) return;
      works.erase(works.begin());
    }
  }

  void end_idle_works(int rank, const Action& user) {
    Rank& state = ranks_[rank];
    std::erase_if(state.idle_works, [&](const IdleWork& work) {
      if (!detail::uses(program_, user, work.action)) return false;
      state.free.time += work.left;
      return true;
    });
  }

  void count_live(int rank, const Action& half) {
    const StageBackward backward = program_.backward_of(half.stage);
    if (backward == StageBackward::kNone && !program_.forward_only) return;
    const ActionKind kind = half.kind;
    Rank& state = ranks_[rank];
    RankTimeline& timeline = result_.ranks[rank];
    if (kind == ActionKind::kForward) {
      timeline.peak_live = std::max(timeline.peak_live, ++state.live);
      timeline.peak_live_until_grad_input =
          std::max(timeline.peak_live_until_grad_input, ++state.live_until_grad_input);
    }
    const bool ends = has_weight_gradients(backward) ? detail::makes_weight_gradient(kind)
                                                     : detail::makes_input_gradient(kind);
    state.bytes.count(kind, costs_of(half.stage), ends);
    if (ends) --state.live;
    if (detail::makes_input_gradient(kind)) --state.live_until_grad_input;
  }

  // Without transfers in the program, results reach other ranks directly.
  void hand_over(int rank, const Action& half) {
    const ChannelKind kind = detail::channel_kind_of(half.kind);
    Work& own = work(half);
    own.results[kind] = ranks_[rank].free;
    own.made_by[kind] = ranks_[rank].last_compute;
    if (kind == kGradient && !passes_gradients_on(program_.backward_of(half.stage))) return;
    const int destination = program_.flow.destination(kind, half.stage, half.microbatch);
    const int there = program_.stage_map.rank_of(destination);
    if (there == rank)
      deliver({destination, half.microbatch}, kind, ranks_[rank].free);
    else if (there >= 0 && !with_transfers_)
      transmit(rank, half, kind, ranks_[rank].free);
  }

  bool try_send(int rank, const Action& send) {
    const ChannelKind kind = detail::channel_kind_of(send.kind);
    const Work& own = work(send);
    if (own.made_by[kind] < 0) return false;
    // If SEND directly follows its action, the value leaves at once, even while the other half of
    // an overlapped pair runs.
    const bool follows = own.made_by[kind] == ranks_[rank].last_compute;
    transmit(rank, send, kind, follows ? own.results[kind] : ranks_[rank].free);
    return true;
  }

  void transmit(int rank, const Action& from, ChannelKind kind, Moment departure) {
    const int stage = program_.flow.destination(kind, from.stage, from.microbatch);
    const int there = program_.stage_map.rank_of(stage);
    if (there < 0) return;
    const int cut = kind == kActivation ? from.stage : stage;
    const double bytes = costs_.message_bytes.empty() ? 0.0 : costs_.message_bytes[cut];
    const double occupied = costs_.bandwidth > 0.0 ? bytes / costs_.bandwidth : 0.0;
    deliver({stage, from.microbatch}, kind,
            detail::arrival_of(departure, occupied, costs_.latency,
                               occupied > 0.0 ? channels_[{rank, there, kind}] : unused_));
  }

  void deliver(detail::StageMicrobatch to, ChannelKind kind, const Moment& arrival) {
    work_.at(to).inputs[kind].arrival = arrival;
    wake(program_.stage_map.rank_of(to.stage));
  }

  // Waits for the transfers and collectives that `is_used` selects. Returns false if an end is not
  // known yet.
  template <typename IsUsed>
  bool try_wait(int rank, const IsUsed& is_used) {
    Rank& state = ranks_[rank];
    bool all_known = true;
    std::erase_if(state.posts, [&](const Post& post) {
      const bool is_alone = !detail::is_collective(post.action.kind);
      const Moment& end =
          is_alone ? post.end : collectives_[detail::number_of(program_, post.action)].end;
      if (end.time != kUnknown && end.time <= state.free.time) return true;
      if (!is_used(post.action)) return false;
      if (end.time == kUnknown) {
        all_known = false;
        return false;
      }
      spend_idle(rank, end.time - state.free.time);
      state.free = end;
      return true;
    });
    return all_known;
  }

  // UNSHARD and REDUCE_GRAD exchange with other replicas, which we assume to be as far.
  void begin_alone(int rank, const Action& action) {
    Rank& state = ranks_[rank];
    const StageCosts& costs = costs_of(action.stage);
    const bool is_unshard = action.kind == ActionKind::kUnshard;
    Moment& lane = is_unshard ? state.unshard_free : state.reduce_free;
    lane = detail::later(state.free, lane);
    lane.time += is_unshard ? costs.unshard : costs.reduce_gradients;
    state.posts.push_back({action, lane});
  }

  bool meet(int rank, const Action& collective) {
    const int number = detail::number_of(program_, collective);
    if (number < 0) return false;
    Collective& state = collectives_[number];
    if (std::find(state.arrived.begin(), state.arrived.end(), rank) != state.arrived.end()) {
      return false;
    }
    state.arrived.push_back(rank);
    state.begin = detail::later(state.begin, ranks_[rank].free);
    ranks_[rank].posts.push_back({collective, {kUnknown, {-1, -1}}});
    const std::vector<int> members = detail::members_of(program_, collective);
    if (state.arrived.size() < members.size()) return true;
    state.end = state.begin;
    state.end.time += cost_of(collective.kind);
    for (const int member : members) wake(member);
    return true;
  }

  double cost_of(ActionKind collective) const {
    if (collective == ActionKind::kReduceTied) return costs_.reduce_tied;
    if (collective == ActionKind::kReduceLoss) return costs_.reduce_loss;
    return collective == ActionKind::kGatherOutputs ? costs_.gather_outputs : costs_.reduce_norm;
  }

  void require_finished() const {
    for (int rank = 0; rank < program_.num_ranks(); ++rank) {
      if (ranks_[rank].is_done) continue;
      // If the rank only waits for transfers to end, report its last instruction.
      const std::size_t at = std::min(ranks_[rank].at, program_.ranks[rank].size() - 1);
      throw Error(ErrorKind::kInput,
                  {.what = "the program cannot complete: some inputs never arrive",
                   .where = detail::location_text(program_, rank, static_cast<int>(at)),
                   .remedy = "see what is missing with 'sluice schedule --check'"});
    }
  }

  const Program& program_;
  const Costs& costs_;
  const bool with_transfers_;
  detail::StageMicrobatchTable<Work> work_;
  std::vector<Rank> ranks_;
  std::vector<Collective> collectives_;
  std::unordered_map<detail::Channel, Moment> channels_;  // when each channel is free
  Moment unused_;                                         // for messages that take no time
  std::vector<int> runnable_;
  std::vector<std::vector<Step>> causes_;  // [rank][action]: the action that it waited for
  Simulation result_;
};

}  // namespace

Simulation simulate(const Program& program, const Costs& costs) {
  detail::require_in_range(program);
  detail::require_fitting(costs, program);
  return Simulator(program, costs).run();
}

}  // namespace sluice
