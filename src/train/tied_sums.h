// The gradients of tied parameters: those of all uses added up in layer order, wherever the uses
// are; each use gets the sum. And those of a weight that all slices share: a use for each slice,
// added up in the tree over all slices, those of other ranks among them.
//
// Does not own: gradients of single uses (Stage), the list of parameters (parameter_list.h).
// Thread-safety: one rank's thread.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/run_groups.h"
#include "sluice/program.h"
#include "train/parameter_list.h"

namespace sluice {

class TiedSums {
 public:
  // References must outlive it and its works. Throws Error(kInternal) for a tie across ranks that
  // the program has no group for.
  TiedSums(const Program& program, const std::vector<SharedParameter>& parameters,
           const RunGroups& groups);

  // REDUCE_TIED; nothing for a frozen group.
  Work<void> reduce(int group);
  // True if the gradients of its uses are what they will be at the end of the step: a parameter of
  // one use, or summed already.
  bool is_summed(const SharedParameter& parameter) const {
    const bool is_sum = parameter.uses.size() > 1 || parameter.has_partial_sums();
    return !is_sum || summed_.contains(parameter.name);
  }
  // The ties within this rank that no REDUCE_TIED of the step was about: those within one stage are
  // no business of the program's. Then what slices share: collective over the ranks that share
  // them, and waits.
  void sum_others();
  // Gradients of another step follow.
  void clear() { summed_.clear(); }

 private:
  const SharedParameter* parameter_of(int group) const;
  void sum_slices();
  void put_sum(const SharedParameter& parameter, const at::Tensor& sum);

  const Program& program_;
  const std::vector<SharedParameter>& parameters_;
  const int rank_;
  const Group shares_;
  std::set<std::string> summed_;  // names, since clear()
};

}  // namespace sluice
