// Enumerates the ways to cut a chain of layers, best first. The best cut minimizes the load of the
// slowest rank.
//
// Ties are broken by the smaller largest stage, then by longer first stages. Costs are compared in
// steps of 1e-12 of their sum.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace sluice::detail {

struct SplitProblem {
  std::vector<double> costs;       // of every layer, at least 0
  int first_cut = 1;               // every stage but the first starts
  int last_cut = 1;                // in [first_cut, last_cut]
  std::vector<int> stage_to_rank;  // of every stage
};

// Up to about 200,000 possible splits are all compared. Beyond that we search for the best: by
// dynamic programming if every rank has one stage, otherwise by branch and bound. The next ones are
// then its neighbours. The search runs on the first call of at().
class CutOrder {
 public:
  // Precondition: the cuts fit between first_cut and last_cut.
  explicit CutOrder(SplitProblem problem);
  CutOrder(CutOrder&&) noexcept;
  CutOrder& operator=(CutOrder&&) noexcept;
  ~CutOrder();

  // Returns the first layer of every stage for the cuts at this place, or null at the end. After
  // the first 2,000 places, long orders are only sampled.
  const std::vector<int>* at(std::size_t place);

 private:
  class Splitter;
  std::unique_ptr<Splitter> splitter_;
};

}  // namespace sluice::detail
