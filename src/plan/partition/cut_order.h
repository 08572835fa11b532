// Enumerates the ways to cut a chain of layers, best first: the slowest rank's load is smallest.
// Ties are broken by the smaller largest stage, then by longer first stages.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace sluice::detail {

struct SplitProblem {
  std::vector<double> costs;       // per layer, at least 0
  int first_cut = 1;               // later stages start
  int last_cut = 1;                // in [first_cut, last_cut]
  std::vector<int> stage_to_rank;  // per stage
};

// Compares up to about 200,000 splits. If there are more, finds the best by dynamic programming
// (one stage per rank) or branch and bound, and appends its neighbours. The first at() does this
// work.
class CutOrder {
 public:
  // Precondition: the cuts fit between first_cut and last_cut.
  explicit CutOrder(SplitProblem problem);
  CutOrder(CutOrder&&) noexcept;
  CutOrder& operator=(CutOrder&&) noexcept;
  ~CutOrder();

  // Returns the first layer of every stage in the split at `place`, or null at the end. Beyond
  // place 2,000, long orders are only sampled.
  const std::vector<int>* at(std::size_t place);

 private:
  class Splitter;
  std::unique_ptr<Splitter> splitter_;
};

}  // namespace sluice::detail
