// Replays the compute order and adds both ends of every transfer at one moment, which also shows
// that every RECV finds its message. Like torch's `_add_send_recv`, sweeps over the ranks in
// ascending order and runs one ready action of each:
//
//   rank 0   0F0  0SEND_F0                   0RECV_B0  0B0
//   rank 1                 1RECV_F0  1F0  1B0  1SEND_B0
//
// Idle slots count as actions and are dropped. Ranks without input leave the sweeps, to avoid
// quadratic time.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "plan/action_kinds.h"
#include "plan/neighbours.h"
#include "plan/passes/passes.h"
#include "plan/passes/rank_set.h"
#include "plan/stage_microbatch_table.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using detail::makes_input_gradient;

class ComputeReplay {
 public:
  explicit ComputeReplay(Program program)
      : program_(std::move(program)),
        marks_(program_),
        todo_(std::move(program_.ranks)),
        at_(todo_.size()),
        this_sweep_(program_.num_ranks()),
        next_sweep_(program_.num_ranks()) {
    program_.ranks.assign(todo_.size(), {});
    for (std::size_t rank = 0; rank < todo_.size(); ++rank) {
      program_.ranks[rank].reserve(2 * todo_[rank].size());
      unfinished_ += !todo_[rank].empty();
    }
  }

  Program run() {
    for (int rank = 0; rank < program_.num_ranks(); ++rank) {
      if (!todo_[rank].empty()) next_sweep_.insert(rank);
    }
    while (next_sweep_.next(0) < program_.num_ranks()) {
      std::swap(this_sweep_, next_sweep_);
      for (int rank = this_sweep_.next(0); rank < program_.num_ranks();
           rank = this_sweep_.next(rank + 1)) {
        this_sweep_.erase(rank);
        replay_one(rank);
      }
    }
    if (unfinished_ > 0) refuse();
    return std::move(program_);
  }

 private:
  enum Mark : unsigned char {
    kInput = 1,
    kOutputGradient = 2,
    kForwardDone = 4,
    kGradientDone = 8
  };

  unsigned char& marks(int stage, int microbatch) { return marks_.at({stage, microbatch}); }

  bool ready(const Action& half) {
    const bool is_forward = half.kind == ActionKind::kForward;
    if (!is_forward && !makes_input_gradient(half.kind)) return true;
    const int source =
        program_.flow.source(detail::channel_kind_of(half.kind), half.stage, half.microbatch);
    if (program_.stage_map.rank_of(half.stage) < 0 || program_.stage_map.rank_of(source) < 0) {
      return true;
    }
    if (marks(half.stage, half.microbatch) & (is_forward ? kInput : kOutputGradient)) return true;
    return !detail::exchanges(program_, half.stage, source) &&
           (marks(source, half.microbatch) & (is_forward ? kForwardDone : kGradientDone));
  }

  void replay_one(int rank) {
    const Action action = todo_[rank][at_[rank]];
    bool is_ready = true;
    detail::for_each_half(action, [&](const Action& half) { is_ready = is_ready && ready(half); });
    if (!is_ready) return;
    if (action.kind != ActionKind::kIdle) program_.ranks[rank].push_back(action);
    detail::for_each_half(action, [&](const Action& half) { finish(rank, half); });
    if (++at_[rank] < todo_[rank].size())
      next_sweep_.insert(rank);
    else
      --unfinished_;
  }

  void finish(int rank, const Action& half) {
    const bool is_forward = half.kind == ActionKind::kForward;
    if (!is_forward && !makes_input_gradient(half.kind)) return;
    if (!is_forward && !passes_gradients_on(program_.backward_of(half.stage))) return;
    marks(half.stage, half.microbatch) |= is_forward ? kForwardDone : kGradientDone;
    const int destination =
        program_.flow.destination(detail::channel_kind_of(half.kind), half.stage, half.microbatch);
    if (!detail::exchanges(program_, half.stage, destination)) return;
    const ActionKind send = is_forward ? ActionKind::kSendForward : ActionKind::kSendBackward;
    exchange(rank, Action::make(send, half.stage, half.microbatch),
             is_forward ? kInput : kOutputGradient);
  }

  void exchange(int rank, const Action& send, Mark arrived) {
    const Action recv = detail::counterpart(program_, send);
    const int peer = program_.stage_map.rank_of(recv.stage);
    program_.ranks[rank].push_back(send);
    program_.ranks[peer].push_back(recv);
    marks(recv.stage, recv.microbatch) |= arrived;
    if (at_[peer] == todo_[peer].size()) return;
    // Ranks above this one still run in this sweep.
    if (peer > rank)
      this_sweep_.insert(peer);
    else if (peer < rank)
      next_sweep_.insert(peer);
  }

  [[noreturn]] void refuse() const {
    constexpr int kMaxListed = 16;
    std::string where;
    int listed = 0;
    for (int rank = 0; rank < program_.num_ranks() && listed < kMaxListed; ++rank) {
      if (at_[rank] == todo_[rank].size()) continue;
      if (listed++ > 0) where += ", ";
      where += formatted("rank {} at instruction {} '{}'", rank, at_[rank],
                         to_text(todo_[rank][at_[rank]]));
    }
    if (unfinished_ > listed) where += formatted(" and {} more", unfinished_ - listed);
    throw Error(ErrorKind::kInput,
                {.what = "the order cannot complete: some inputs never arrive",
                 .where = where,
                 .remedy = "see what is missing with 'sluice schedule --check'"});
  }

  Program program_;
  detail::StageMicrobatchTable<unsigned char> marks_;
  std::vector<std::vector<Action>> todo_;
  std::vector<std::size_t> at_;
  detail::RankSet this_sweep_, next_sweep_;
  int unfinished_ = 0;
};

}  // namespace

Program add_transfers(Program program) {
  detail::require_in_range(program);
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    const std::vector<Action>& row = program.ranks[rank];
    const auto found = std::find_if(row.begin(), row.end(),
                                    [](const Action& action) { return is_transfer(action.kind); });
    if (found == row.end()) continue;
    throw Error(
        ErrorKind::kInput,
        {.what = "the program already has transfers",
         .where = detail::location_text(program, rank, static_cast<int>(found - row.begin())),
         .remedy = "do not lower it again, or give its compute actions alone"});
  }
  return ComputeReplay(std::move(program)).run();
}

}  // namespace sluice
