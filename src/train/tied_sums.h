// Sums the gradients of tied parameters. The uses are added in layer order, wherever they are, and
// each use gets the sum. A weight that all slices share has one use for each slice. These are added
// in the tree over all slices, including those of other ranks.
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
  // References must outlive this object and its works. Throws Error(kInternal) if the program has
  // no group for a tie across ranks.
  TiedSums(const Program& program, const std::vector<SharedParameter>& parameters,
           const RunGroups& groups);

  // Carries out REDUCE_TIED. Does nothing for a frozen group.
  Work<void> reduce(int group);
  // Whether the gradients of the uses are final: the parameter has one use, or is summed already.
  bool is_summed(const SharedParameter& parameter) const {
    const bool is_sum = parameter.uses.size() > 1 || parameter.has_partial_sums();
    return !is_sum || summed_.contains(parameter.name);
  }
  // Sums the ties within this rank that no REDUCE_TIED of the step has summed. Programs do not
  // contain ties within one stage. Then sums the weights that slices share: this is collective over
  // the tensor-parallel ranks and blocks.
  void sum_others();
  // Call this before the gradients of another step.
  void clear() { summed_.clear(); }

 private:
  const SharedParameter* parameter_of(int group) const;
  void sum_slices();
  void put_sum(const SharedParameter& parameter, const at::Tensor& sum);

  const Program& program_;
  const std::vector<SharedParameter>& parameters_;
  const int rank_;
  const Group shares_;
  std::set<std::string> summed_;  // names summed since clear()
};

}  // namespace sluice
