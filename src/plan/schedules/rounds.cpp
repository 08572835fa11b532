#include "plan/schedules/rounds.h"

#include <algorithm>

namespace sluice::detail {

Rounds make_rounds(const ScheduleShape& shape) {
  const int num_rounds = std::max(1, shape.num_microbatches / shape.num_ranks);
  const int base = shape.num_microbatches / num_rounds;
  const int remainder = shape.num_microbatches % num_rounds;

  Rounds rounds;
  rounds.largest_round = base + (remainder > 0 ? 1 : 0);
  const std::size_t size = static_cast<std::size_t>(shape.stages_per_rank) *
                           static_cast<std::size_t>(shape.num_microbatches);
  rounds.forward.reserve(size);
  rounds.backward.reserve(size);
  int begin = 0;
  for (int round = 0; round < num_rounds; ++round) {
    const int end = begin + base + (round < remainder ? 1 : 0);
    for (int local = 0; local < shape.stages_per_rank; ++local) {
      for (int mb = begin; mb < end; ++mb) {
        rounds.forward.push_back({local, mb});
        rounds.backward.push_back({shape.stages_per_rank - 1 - local, mb});
      }
    }
    begin = end;
  }
  return rounds;
}

int warmup_forwards(const ScheduleShape& shape, const Rounds& rounds, int rank, int per_hop) {
  const int forwards =
      (shape.stages_per_rank - 1) * rounds.largest_round + per_hop * (shape.num_ranks - 1 - rank);
  return std::min(forwards, shape.num_microbatches * shape.stages_per_rank);
}

}  // namespace sluice::detail
