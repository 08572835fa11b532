// Moves RECVs later, because a pending RECV blocks instructions that do not need it. RECVs must not
// pass other transfers, as in torch's `_defer_recv_ops`: ranks could deadlock, or receive gradients
// as activations.
#include <deque>
#include <utility>

#include "plan/neighbours.h"
#include "plan/passes/passes.h"
#include "plan/stage_microbatch_table.h"
#include "sluice/error.h"

namespace sluice {
namespace {

class Deferral {
 public:
  explicit Deferral(const Program& program) : program_(program), is_deferred_(program) {}

  std::vector<Action> defer(int rank) {
    result_.clear();
    result_.reserve(program_.ranks[rank].size());
    for (const Action& action : program_.ranks[rank]) {
      if (detail::is_recv(action.kind)) {
        deferred_.push_back(action);
        is_deferred(action) = true;
        continue;
      }
      if (detail::is_send(action.kind)) {
        while (!deferred_.empty()) emit_front();
      }
      detail::for_each_half(action, [&](const Action& half) { emit_input(half); });
      result_.push_back(action);
    }
    if (!deferred_.empty()) {
      throw Error(ErrorKind::kInput,
                  {.what = "'" + to_text(deferred_.front()) + "' is received and never used",
                   .where = "rank " + std::to_string(rank),
                   .remedy = "see what is missing with 'sluice schedule --check'"});
    }
    return std::move(result_);
  }

 private:
  bool& is_deferred(const Action& recv) {
    return is_deferred_.at({recv.stage, recv.microbatch})[detail::channel_kind_of(recv.kind)];
  }

  void emit_front() {
    is_deferred(deferred_.front()) = false;
    result_.push_back(deferred_.front());
    deferred_.pop_front();
  }

  // Emits the RECV that `half` needs and all deferred RECVs before it.
  void emit_input(const Action& half) {
    const bool forward = half.kind == ActionKind::kForward;
    if (!forward && !detail::makes_input_gradient(half.kind)) return;
    const Action recv = Action::make(forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward,
                                     half.stage, half.microbatch);
    while (is_deferred(recv)) emit_front();
  }

  const Program& program_;
  detail::StageMicrobatchTable<detail::PerKind<bool>> is_deferred_;
  std::deque<Action> deferred_;  // of the current rank
  std::vector<Action> result_;
};

}  // namespace

Program defer_receives(Program program) {
  detail::require_in_range(program);
  Deferral deferral(program);
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    program.ranks[rank] = deferral.defer(rank);
  }
  return program;
}

}  // namespace sluice
