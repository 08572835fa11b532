// Ranks that run their rows and wait for each other: can they finish?
//
// Owns: "instruction i of rank r waits until instruction j of rank q is done", and the replay of
// it. Does not own: why (verify). Thread-safety: values.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::detail {

class WaitGraph {
 public:
  explicit WaitGraph(int num_ranks) : waits_(static_cast<std::size_t>(num_ranks)) {}

  // Per rank in ascending order of `index`.
  void add(int rank, int index, int other_rank, int other_index) {
    waits_[rank].push_back({index, other_rank, other_index});
  }

  struct Stuck {
    int rank = 0, index = 0;              // this instruction never starts
    int other_rank = 0, other_index = 0;  // it waits for this one
  };
  // The ranks that wait for each other in circles, circle by circle; ranks that only wait for one
  // of these are left out. Empty: every rank finishes. O(waits log ranks).
  std::vector<Stuck> find_circles() const;

 private:
  struct Wait {
    int index, other_rank, other_index;
  };
  std::vector<std::vector<Wait>> waits_;
};

}  // namespace sluice::detail
