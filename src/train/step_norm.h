// The norm of the gradients of all parameters, each counted once: by its owner, of what shares hold
// alike the first. A divided parameter has a norm for each slice, which counts as one of a
// parameter of its own; a report has them together.
//
// Does not own: sums of ties, which come before (tied_sums.h); the sum of norms (gradient_norm.h).
// Thread-safety: one rank's thread.
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
  std::vector<std::pair<std::string, double>> of_parameters;  // in layer order; without one: 0
};

// Collective over the ranks of a replica. gradient_of: of a use on this rank; undefined: none. The
// parameters and the mesh must outlive the work.
Work<GradientNorms> post_gradient_norms(
    const std::vector<SharedParameter>& parameters, const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of);

// The same where each replica has the gradients of its own blocks, which gradient_of gives, flat.
// Collective over all ranks.
Work<GradientNorms> post_block_norms(
    const std::vector<SharedParameter>& parameters, const BlockOwners& owners,
    const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of);

// The norms of a training step, taken stage by stage as gradients become known, and the rest at the
// end. What a rank sends, and so every bit, is the same whenever it was taken.
class StepNorms {
 public:
  // owners: of blocks, where each replica sums those that it owns; null: each has all. References
  // must outlive it and its works.
  StepNorms(const std::vector<SharedParameter>& parameters, const BlockOwners* owners,
            const RunGroups& groups, const Mesh& mesh)
      : parameters_(parameters), owners_(owners), groups_(groups), mesh_(mesh) {}

  // Piece by piece, of at most some milliseconds, those of a stage that this rank owns; is_known:
  // this one is what it will be at the end of the step.
  IdleWork of_stage(int stage, std::function<bool(const SharedParameter&)> is_known);
  // Takes what is left. Collective over the ranks of the replica, with owners of the mesh. What
  // was taken is forgotten.
  Work<GradientNorms> post();

 private:
  bool is_owned(const SharedParameter& parameter) const;
  // The elements of its gradient that this rank sums: with owners of blocks theirs; undefined:
  // nothing. begin: the first of them, in the order of memory.
  at::Tensor own_elements(const SharedParameter& parameter, std::int64_t& begin) const;
  // The norm of each slice here alone, or with owners the sums of squares of the blocks owned here.
  SliceSquares take(const SharedParameter& parameter, const SquaresOf& squares_of) const;

  const std::vector<SharedParameter>& parameters_;
  const BlockOwners* const owners_;
  const RunGroups groups_;
  const Mesh& mesh_;
  std::map<const SharedParameter*, SliceSquares> taken_;
};

}  // namespace sluice
