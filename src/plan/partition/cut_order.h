// Enumerates the ways to cut a chain of layers into stages, fastest first: those with the smallest
// load of the slowest rank. Ties go to the smaller largest stage, then to longer first stages.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace sluice::detail {

struct SplitProblem {
  std::vector<double> costs;  // of each layer, at least 0
  // Stages after the first start at a layer in [first_cut, last_cut].
  int first_cut = 1;
  int last_cut = 1;
  std::vector<int> stage_to_rank;  // per stage
};

// Compares up to about 200,000 splits. If there are more, finds the best by dynamic programming
// (one stage per rank) or branch and bound, and appends similar splits.
class CutOrder {
 public:
  // Precondition: the cuts fit between first_cut and last_cut.
  explicit CutOrder(SplitProblem problem);
  CutOrder(CutOrder&&) noexcept;
  CutOrder& operator=(CutOrder&&) noexcept;
  ~CutOrder();

  // Returns the first layer of every stage in the split at index `place`, or null at the end. From
  // 2,000 on, it skips splits if there are many.
  const std::vector<int>* at(std::size_t place);

 private:
  class Splitter;
  std::unique_ptr<Splitter> splitter_;
};

}  // namespace sluice::detail
