#include "plan/wait_graph.h"

#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace sluice::detail {
namespace {

constexpr int kFinished = std::numeric_limits<int>::max();

}  // namespace

std::vector<WaitGraph::Stuck> WaitGraph::find_circles() const {
  const int num_ranks = static_cast<int>(waits_.size());
  using Sleeper = std::pair<int, int>;  // {index of the awaited instruction, waiting rank}
  using Sleepers = std::priority_queue<Sleeper, std::vector<Sleeper>, std::greater<>>;
  std::vector<Sleepers> sleepers(waits_.size());  // [rank]: ranks that wait for it
  std::vector<std::size_t> passed(waits_.size(), 0);
  std::vector<int> at(waits_.size(), 0);  // [rank]: instructions before this index are done
  std::vector<int> runnable(waits_.size());
  for (int rank = 0; rank < num_ranks; ++rank) runnable[rank] = rank;

  while (!runnable.empty()) {
    const int rank = runnable.back();
    runnable.pop_back();
    at[rank] = kFinished;
    for (; passed[rank] < waits_[rank].size(); ++passed[rank]) {
      const Wait& wait = waits_[rank][passed[rank]];
      at[rank] = wait.index;
      if (at[wait.other_rank] <= wait.other_index) {
        sleepers[wait.other_rank].emplace(wait.other_index, rank);
        break;
      }
      at[rank] = kFinished;
    }
    while (!sleepers[rank].empty() && sleepers[rank].top().first < at[rank]) {
      runnable.push_back(sleepers[rank].top().second);
      sleepers[rank].pop();
    }
  }

  std::vector<Stuck> circles;
  std::vector<int> seen(waits_.size(), -1);
  for (int start = 0; start < num_ranks; ++start) {
    int rank = start;
    while (at[rank] != kFinished && seen[rank] < 0) {
      seen[rank] = start;
      rank = waits_[rank][passed[rank]].other_rank;
    }
    if (at[rank] == kFinished || seen[rank] != start) continue;
    const int first = rank;
    do {
      const Wait& wait = waits_[rank][passed[rank]];
      circles.push_back({rank, wait.index, wait.other_rank, wait.other_index});
      rank = wait.other_rank;
    } while (rank != first);
  }
  return circles;
}

}  // namespace sluice::detail
