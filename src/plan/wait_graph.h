// Detects deadlocks between ranks that wait for each other's instructions.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::detail {

class WaitGraph {
 public:
  explicit WaitGraph(int num_ranks) : waits_(static_cast<std::size_t>(num_ranks)) {}

  // Instruction `index` of `rank` waits until the other instruction is done. Call in ascending
  // order of `index` per rank.
  void add(int rank, int index, int other_rank, int other_index) {
    waits_[rank].push_back({index, other_rank, other_index});
  }

  struct Stuck {
    int rank = 0, index = 0;              // an instruction that never starts
    int other_rank = 0, other_index = 0;  // the instruction for which it waits
  };
  // Returns the ranks of each cycle, one cycle after another, without ranks that only wait for a
  // cycle. Takes O(waits log ranks).
  std::vector<Stuck> find_circles() const;

 private:
  struct Wait {
    int index, other_rank, other_index;
  };
  std::vector<std::vector<Wait>> waits_;
};

}  // namespace sluice::detail
