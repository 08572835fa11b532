// The cuts of a chain of layers in the order of preference: those that make the slowest rank as
// fast as it can be come first.
//
// Owns: the search. Does not own: the costs of layers, names, the ranks of stages.
//
// Cuts whose slowest rank is equally fast: those whose largest stage is smallest come first, and
// of those the ones whose first stages are longest. Costs are compared in steps of 1e-12 of their
// sum. Thread-safety: one object is one thread's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace sluice::detail {

struct SplitProblem {
  std::vector<double> costs;       // cost of every layer, at least 0
  int first_cut = 1;               // a stage behind the first starts at one of
  int last_cut = 1;                // [first_cut, last_cut]
  std::vector<int> stage_to_rank;  // rank of every stage
};

// Up to about 200,000 possible splits all of them are looked at; of more, the best is found by
// dynamic programming where every rank has one stage, by branch and bound where ranks have several,
// and those behind it are the ones around it. Nothing is searched before it is asked for.
class CutOrder {
 public:
  // Precondition: the cuts fit between first_cut and last_cut.
  explicit CutOrder(SplitProblem problem);
  CutOrder(CutOrder&&) noexcept;
  CutOrder& operator=(CutOrder&&) noexcept;
  ~CutOrder();

  // First layer of every stage, of the cuts at this place in the order; null: those before are all
  // that are to be looked at. Of many, only some behind the first 2,000 are.
  const std::vector<int>* at(std::size_t place);

 private:
  class Splitter;
  std::unique_ptr<Splitter> splitter_;
};

}  // namespace sluice::detail
