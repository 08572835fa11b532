// Enumerates the ways to cut a chain of layers, best first: the slowest rank's load is smallest.
// Ties are broken by the smaller largest stage, then by longer first stages. Costs are compared in
// steps of 1e-12 of their sum.
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

// Up to about 200,000 splits are all compared. Beyond that, dynamic programming finds the best if
// every rank has one stage, otherwise branch and bound. Its neighbours follow. The search starts
// with the first at().
class CutOrder {
 public:
  // Precondition: the cuts fit between first_cut and last_cut.
  explicit CutOrder(SplitProblem problem);
  CutOrder(CutOrder&&) noexcept;
  CutOrder& operator=(CutOrder&&) noexcept;
  ~CutOrder();

  // The first layer of every stage, or null at the end. Long orders are only sampled after the
  // first 2,000 places.
  const std::vector<int>* at(std::size_t place);

 private:
  class Splitter;
  std::unique_ptr<Splitter> splitter_;
};

}  // namespace sluice::detail
