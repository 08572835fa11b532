#include "train/callers_update.h"

#include <utility>

#include "plan/step_program.h"
#include "run/executor.h"
#include "sluice/error.h"
#include "train/own_blocks.h"

namespace sluice {
namespace {

[[noreturn]] void refuse_instruction(const char* instruction) {
  throw Error(ErrorKind::kInternal,
              {.what = std::string(instruction) + " in the program of an update by itself"});
}

}  // namespace

CallersUpdate::CallersUpdate(const Plan& plan, const RankModel& rank, Transport& transport)
    : rank_(rank),
      program_(detail::proven_step_program(plan, {.update_only = true})),
      ops_(rank),
      executor_(program_, transport.rank(), rank.stages.pointers(), transport, ops_, {}, {}) {}

void CallersUpdate::run(const std::function<void()>& step, std::int64_t number) {
  StepBatch nothing;
  nothing.step = number;
  nothing.total_count = 0;
  ops_.begin(step);
  executor_.run_step(nothing);
}

Work<void> CallersUpdate::Ops::update(int stage) {
  optimizer_step();
  return share_blocks(rank_, stage);
}

void CallersUpdate::Ops::optimizer_step() {
  if (const auto* step = std::exchange(step_, nullptr)) (*step)();
}

Work<void> CallersUpdate::Ops::unshard(int) { refuse_instruction("UNSHARD"); }
void CallersUpdate::Ops::reshard(int) { refuse_instruction("RESHARD"); }
Work<void> CallersUpdate::Ops::reduce_gradients(int, std::optional<int>) {
  refuse_instruction("REDUCE_GRAD");
}
Work<void> CallersUpdate::Ops::reduce_tied(int) { refuse_instruction("REDUCE_TIED"); }
Work<void> CallersUpdate::Ops::reduce_loss() { refuse_instruction("REDUCE_LOSS"); }
Work<void> CallersUpdate::Ops::gather_outputs() { refuse_instruction("GATHER_OUTPUTS"); }
Work<void> CallersUpdate::Ops::reduce_norm() { refuse_instruction("REDUCE_NORM"); }
IdleWork CallersUpdate::Ops::partial_norm(int) { refuse_instruction("PARTIAL_NORM"); }

}  // namespace sluice
