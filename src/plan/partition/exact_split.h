// The search for cuts of a chain of layers that make the slowest rank as fast as it can be.
//
// Owns: the search. Does not own: what layers cost, names, which ranks the stages are on.
//
// Splits whose slowest rank is fastest: the one whose largest stage is smallest is taken, and of
// those the one whose first stages are longest. Costs are compared in steps of 1e-12 of their sum.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace sluice::detail {

struct SplitProblem {
  std::vector<double> costs;       // of every layer, at least 0
  int first_cut = 1;               // a stage behind the first starts at one of
  int last_cut = 1;                // [first_cut, last_cut]
  std::vector<int> stage_to_rank;  // of every stage
};

struct ExactSplit {
  std::vector<int> starts;  // first layer of every stage; none: no split was accepted
  double slowest = 0;       // sum of the costs of the rank with the most
  // Proven to be the best that is accepted. False where there are more splits than can be looked
  // at: then the best that was found.
  bool is_exact = true;
};

// accepts: asked in the order of preference; empty: accepts all. Up to about 200,000 possible
// splits all of them are looked at; of more, the best is found by dynamic programming where every
// rank has one stage, by branch and bound where ranks have several, and those that `accepts` is
// asked for are the ones around it. Precondition: the cuts fit between first_cut and last_cut.
ExactSplit exact_split(const SplitProblem& problem,
                       const std::function<bool(const std::vector<int>& starts)>& accepts = {});

}  // namespace sluice::detail
