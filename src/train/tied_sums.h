// Sums the gradients of tied parameters over their uses in layer order, on whatever ranks, and
// gives each use the sum. A weight shared by all tensor-parallel slices has one use per slice,
// added in a tree.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/run_groups.h"
#include "optim/packed_parts.h"
#include "sluice/program.h"
#include "train/parameter_list.h"

namespace sluice {

class TiedSums {
 public:
  // Throws Error(kInternal) if the program lacks a group for a tie across ranks. References must
  // outlive the Works.
  TiedSums(const Program& program, const std::vector<SharedParameter>& parameters,
           const RunGroups& groups);

  // Carries out REDUCE_TIED. Does nothing if the group's parameter is frozen.
  Work<void> reduce(int group);
  // Whether the gradient needs no sum over uses, or is already summed.
  bool is_summed(const SharedParameter& parameter) const {
    const bool is_sum = parameter.uses.size() > 1 || parameter.has_partial_sums();
    return !is_sum || summed_.contains(parameter.name);
  }
  // Sums ties within this rank, then weights that slices share. Blocks. Collective over the
  // tensor-parallel ranks.
  void sum_remaining_ties();
  // Call this before the next step's backward.
  void clear() { summed_.clear(); }

 private:
  const SharedParameter* parameter_of(int group) const;
  // Weights that slices share, which are exchanged together.
  struct SliceBucket {
    std::vector<const SharedParameter*> parameters = {};
    std::vector<PartMeta> metas = {};
    std::vector<at::Tensor> own = {};                          // sums over the slices of this rank
    std::vector<Work<std::vector<at::Tensor>>> gathered = {};  // empty for one rank
  };
  void sum_slices();
  void begin_slices(SliceBucket& bucket) const;
  void finish_slices(SliceBucket& bucket);
  void put_sum(const SharedParameter& parameter, const at::Tensor& sum);

  const Program& program_;
  const std::vector<SharedParameter>& parameters_;
  const int rank_;
  const Group shares_;
  std::set<std::string> summed_;
};

}  // namespace sluice
