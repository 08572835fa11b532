// Interleaved zero bubble (ZB1P, ZB-H1): 1F1B with the backward split in two.
// Qi et al., "Zero Bubble Pipeline Parallelism", 2023, https://arxiv.org/abs/2401.10241
//
// The previous rank waits for I, the input's gradient. No rank waits for W, so W fills bubbles. 4
// ranks, 1 stage per rank, 6 microbatches:
//
//   rank 0  F0 F1 F2 F3          I0 W0 F4 I1 W1 F5 I2 W2 I3 W3 I4 W4 I5 W5
//   rank 1     F0 F1 F2       I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 I4 W3 I5 W4 W5
//   rank 2        F0 F1    I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 I5 W3 W4 W5
//   rank 3           F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5
//
// Rank r delays W by r microbatches, so all ranks keep equally many activations. Without a
// remainder (rounds.h), torch.distributed.pipelining uses the same order.
#include <algorithm>
#include <limits>

#include "plan/schedules/builders.h"
#include "plan/schedules/rounds.h"

namespace sluice::detail {
namespace {

std::vector<Action> make_row(const ScheduleShape& shape, const Rounds& rounds, int rank) {
  const int ranks = shape.num_ranks;
  const int total = static_cast<int>(rounds.forward.size());
  const int warmup = warmup_forwards(shape, rounds, rank, /*per_hop=*/1);
  std::vector<Action> row;
  row.reserve(3 * rounds.forward.size() + static_cast<std::size_t>(ranks));

  const auto forward = [&](int op) {
    const RoundStep& step = rounds.forward[op];
    row.push_back(Action::forward(step.local_stage * ranks + rank, step.microbatch));
  };
  const auto backward_input = [&](int op) {
    const RoundStep& step = rounds.backward[op];
    row.push_back(Action::backward_input(step.local_stage * ranks + rank, step.microbatch));
  };
  const auto backward_weight = [&](int op) {
    const RoundStep& step = rounds.backward[op];
    row.push_back(Action::backward_weight(step.local_stage * ranks + rank, step.microbatch));
  };

  row.resize(static_cast<std::size_t>(rank));
  for (int op = 0; op < warmup; ++op) forward(op);
  if (warmup > 0) row.resize(row.size() + static_cast<std::size_t>(ranks - 1 - rank));
  for (int op = 0; op < total; ++op) {
    if (warmup + op < total) forward(warmup + op);
    backward_input(op);
    if (op >= rank) backward_weight(op - rank);
  }
  for (int op = std::max(0, total - rank); op < total; ++op) backward_weight(op);
  return row;
}

// Delays forwards, with idle slots, until their inputs exist. As in torch, backwards are not
// delayed.
void delay_forwards(Schedule& schedule) {
  constexpr int kNotYet = std::numeric_limits<int>::max();
  const auto num_mb = static_cast<std::size_t>(schedule.num_microbatches);
  std::vector<int> done(static_cast<std::size_t>(schedule.num_stages()) * num_mb, kNotYet);
  const auto slot_of = [&](int stage, int mb) -> int& {
    return done[static_cast<std::size_t>(stage) * num_mb + static_cast<std::size_t>(mb)];
  };

  std::vector<std::vector<Action>> delayed(schedule.rows.size());
  std::vector<std::size_t> next(schedule.rows.size(), 0);
  bool running = true;
  for (int slot = 0; running; ++slot) {
    running = false;
    for (std::size_t rank = 0; rank < schedule.rows.size(); ++rank) {
      if (next[rank] == schedule.rows[rank].size()) continue;
      running = true;
      const Action& action = schedule.rows[rank][next[rank]];
      const bool is_forward = action.kind == ActionKind::kForward;
      if (is_forward && action.stage > 0 && slot_of(action.stage - 1, action.microbatch) >= slot) {
        delayed[rank].emplace_back();
        continue;
      }
      if (is_forward) slot_of(action.stage, action.microbatch) = slot;
      delayed[rank].push_back(action);
      ++next[rank];
    }
  }
  schedule.rows = std::move(delayed);
}

}  // namespace

Schedule build_interleaved_zero_bubble(const ScheduleShape& shape) {
  Schedule schedule = start("InterleavedZeroBubble", Placement::kLoop, shape);
  const Rounds rounds = make_rounds(shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.rows[rank] = make_row(shape, rounds, rank);
  }
  delay_forwards(schedule);
  return schedule;
}

}  // namespace sluice::detail
