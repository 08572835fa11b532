// Computes the norm of all gradients. The owner of a parameter counts it once; if tensor-parallel
// ranks hold the same copy, the first of them does. Each slice of a divided parameter counts like a
// parameter of its own, and reports combine the slices. Ties must be summed first (tied_sums.h).
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
  std::vector<std::pair<std::string, double>> of_parameters;  // in layer order; 0 without gradient
};

// Collective over the ranks of a replica. gradient_of: returns the gradient of a use on this rank,
// or an undefined tensor. The parameters and the mesh must outlive the work.
Work<GradientNorms> post_gradient_norms(
    const std::vector<SharedParameter>& parameters, const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of);

// Does the same if each replica has only the gradients of its own blocks. gradient_of returns them
// as a flat tensor. Collective over all ranks.
Work<GradientNorms> post_block_norms(
    const std::vector<SharedParameter>& parameters, const BlockOwners& owners,
    const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of);

// The norms of a training step. They are computed stage by stage as gradients become final, and the
// rest at the end. All bits are the same, whenever a norm was computed.
class StepNorms {
 public:
  // owners: each replica sums the blocks that it owns. Null: each replica has all gradients.
  // References must outlive this object and its works.
  StepNorms(const std::vector<SharedParameter>& parameters, const BlockOwners* owners,
            const RunGroups& groups, const Mesh& mesh)
      : parameters_(parameters), owners_(owners), groups_(groups), mesh_(mesh) {}

  // Computes the norms of a stage's parameters that this rank owns, in pieces of a few milliseconds
  // at most. is_known: whether the parameter's gradient is final.
  IdleWork of_stage(int stage, std::function<bool(const SharedParameter&)> is_known);
  // Computes the remaining norms and clears all. Collective over the ranks of the replica or, with
  // owners, over the mesh.
  Work<GradientNorms> post();

 private:
  bool is_owned(const SharedParameter& parameter) const;
  // Returns the gradient's elements that this rank sums; undefined if there are none. Sets `begin`
  // to the index of the first one in the parameter.
  at::Tensor own_elements(const SharedParameter& parameter, std::int64_t& begin) const;
  // Computes the norm of each slice or, with owners, the sums of squares of the owned blocks.
  SliceSquares take(const SharedParameter& parameter, const SquaresOf& squares_of) const;

  const std::vector<SharedParameter>& parameters_;
  const BlockOwners* const owners_;
  const RunGroups groups_;
  const Mesh& mesh_;
  std::map<const SharedParameter*, SliceSquares> taken_;
};

}  // namespace sluice
