// Sums the gradients of ties. Adds uses in layer order, wherever they are, and gives each the sum.
// A weight shared by all slices has one use per slice. Adds these in the tree over all slices.
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
  // The program must have a group for each tie across ranks (kInternal). References must outlive
  // the works.
  TiedSums(const Program& program, const std::vector<SharedParameter>& parameters,
           const RunGroups& groups);

  // Carries out REDUCE_TIED. Does nothing for a frozen group.
  Work<void> reduce(int group);
  // Whether the parameter needs no sum, or has it already.
  bool is_summed(const SharedParameter& parameter) const {
    const bool is_sum = parameter.uses.size() > 1 || parameter.has_partial_sums();
    return !is_sum || summed_.contains(parameter.name);
  }
  // Sums the remaining ties: ties within this rank, then weights that slices share. Blocks.
  // Collective over the tensor-parallel ranks.
  void sum_remaining_ties();
  // Call this before the next step's backward.
  void clear() { summed_.clear(); }

 private:
  const SharedParameter* parameter_of(int group) const;
  void sum_slices();
  void put_sum(const SharedParameter& parameter, const at::Tensor& sum);

  const Program& program_;
  const std::vector<SharedParameter>& parameters_;
  const int rank_;
  const Group shares_;
  std::set<std::string> summed_;  // names
};

}  // namespace sluice
