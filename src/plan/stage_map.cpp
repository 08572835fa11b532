#include "sluice/parts/layout.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

int rank_in(Placement placement, int num_ranks, int stage) {
  const int position = stage % num_ranks;
  const bool descending = placement == Placement::kV && (stage / num_ranks) % 2 == 1;
  return descending ? num_ranks - 1 - position : position;
}

}  // namespace

std::vector<int> StageMap::stages_of(int rank) const {
  std::vector<int> stages;
  for (int stage = 0; stage < num_stages(); ++stage) {
    if (rank_of(stage) == rank) stages.push_back(stage);
  }
  return stages;
}

int StageMap::stages_per_rank() const {
  std::vector<int> counts(static_cast<std::size_t>(std::max(num_ranks_, 0)), 0);
  int most = 0;
  for (const int rank : ranks_) {
    if (rank >= 0 && rank < num_ranks_) {
      most = std::max(most, ++counts[rank]);
    }
  }
  return most;
}

bool StageMap::is(Placement placement) const {
  if (num_ranks_ < 1 || num_stages() < 1 || num_stages() % num_ranks_ != 0) return false;
  for (int stage = 0; stage < num_stages(); ++stage) {
    if (rank_of(stage) != rank_in(placement, num_ranks_, stage)) return false;
  }
  return true;
}

StageMap make_stage_map(Placement placement, int num_ranks, int num_stages) {
  if (num_ranks < 1) {
    throw Error(ErrorKind::kUsage, {.what = "the number of ranks is " + std::to_string(num_ranks),
                                    .remedy = "give at least 1"});
  }
  if (num_stages < 1 || num_stages % num_ranks != 0) {
    throw Error(ErrorKind::kUsage,
                {.what = counted(num_stages, "stage") + " cannot be divided evenly over " +
                         counted(num_ranks, "rank"),
                 .remedy = "use a multiple of the ranks"});
  }
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(num_stages));
  for (int stage = 0; stage < num_stages; ++stage) {
    ranks.push_back(rank_in(placement, num_ranks, stage));
  }
  return StageMap(num_ranks, std::move(ranks));
}

}  // namespace sluice
