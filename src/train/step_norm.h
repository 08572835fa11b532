// The norm of all gradients, each counted once. Each slice of a divided parameter counts like a
// parameter. Reports combine the slices. Ties must be summed first (tied_sums.h).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/executor.h"
#include "engine/run_groups.h"
#include "optim/block_owners.h"
#include "optim/slice_blocks.h"
#include "sluice/parts/group.h"
#include "train/parameter_list.h"

namespace sluice {

struct GradientNorms {
  double total = 0;
  // in layer order; 0 without a gradient
  std::vector<std::pair<std::string, double>> of_parameters;
};

// Collective over a replica's ranks. gradient_of: undefined without a gradient. Parameters and mesh
// must outlive the work.
Work<GradientNorms> post_gradient_norms(
    const std::vector<SharedParameter>& parameters, const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of);

// Like post_gradient_norms(), for replicas that have only the gradients of own blocks, as flat
// tensors. Collective over all ranks.
Work<GradientNorms> post_block_norms(
    const std::vector<SharedParameter>& parameters, const BlockOwners& owners,
    const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of);

// Computes norms by stage as gradients become final, and the rest in post(). The time of
// computation affects no bit.
class StepNorms {
 public:
  // owners: set if replicas sum only their own blocks. Null if each replica has all gradients.
  StepNorms(const std::vector<SharedParameter>& parameters, const BlockOwners* owners,
            const RunGroups& groups, const Mesh& mesh)
      : parameters_(parameters), owners_(owners), groups_(groups), mesh_(mesh) {}

  // Computes norms of a stage's owned parameters, in pieces of at most a few milliseconds.
  // is_known: whether a gradient is final.
  IdleWork of_stage(int stage, std::function<bool(const SharedParameter&)> is_known);
  // Computes the remaining norms and clears all. Collective over the replica's ranks or, with
  // owners, the mesh.
  Work<GradientNorms> post();

 private:
  bool is_owned(const SharedParameter& parameter) const;
  // Returns the elements to sum here, or an undefined tensor. begin: index of the first.
  at::Tensor own_elements(const SharedParameter& parameter, std::int64_t& begin) const;
  // Returns norms by slice or, with owners, sums of squares of the owned blocks.
  SliceSquares take(const SharedParameter& parameter, const SquaresOf& squares_of) const;

  const std::vector<SharedParameter>& parameters_;
  const BlockOwners* const owners_;
  const RunGroups groups_;
  const Mesh& mesh_;
  std::map<const SharedParameter*, SliceSquares> taken_;
};

}  // namespace sluice
