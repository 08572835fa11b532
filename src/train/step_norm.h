// The norm of all gradients, each counted once. Each tensor-parallel slice counts like a parameter,
// but reports combine slices. Gradients of ties must be summed first (tied_sums.h).
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
  // Name and norm in layer order. The norm is 0 without a gradient.
  std::vector<std::pair<std::string, double>> of_parameters;
};

// Collective over a replica's ranks. gradient_of: may return undefined. Parameters and mesh must
// outlive the Work.
Work<GradientNorms> post_gradient_norms(
    const std::vector<SharedParameter>& parameters, const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of);

// Like post_gradient_norms(), but replicas have only the gradients of blocks that they own, as flat
// tensors. Collective over all ranks.
Work<GradientNorms> post_block_norms(
    const std::vector<SharedParameter>& parameters, const BlockOwners& owners,
    const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of);

// Computes norms by stage as gradients become final, and the rest in post(). The order does not
// change the bits.
class StepNorms {
 public:
  // owners: set if replicas have only the gradients of blocks that they own, otherwise null.
  StepNorms(const std::vector<SharedParameter>& parameters, const BlockOwners* owners,
            const RunGroups& groups, const Mesh& mesh)
      : parameters_(parameters), owners_(owners), groups_(groups), mesh_(mesh) {}

  // Returns work that computes norms of a stage's owned parameters, a few milliseconds at a time.
  // is_known: whether a gradient is final.
  IdleWork of_stage(int stage, std::function<bool(const SharedParameter&)> is_known);
  // Computes the remaining norms and clears this object. Collective over the replica's ranks or,
  // with owners, the whole mesh.
  Work<GradientNorms> post();

 private:
  bool is_owned(const SharedParameter& parameter) const;
  // Returns the gradient elements to sum on this rank, or an undefined tensor. begin: index of the
  // first element.
  at::Tensor own_elements(const SharedParameter& parameter, std::int64_t& begin) const;
  // Returns norms by slice or, with owners, sums of squares of owned blocks.
  SliceSquares take(const SharedParameter& parameter, const SquaresOf& squares_of) const;

  const std::vector<SharedParameter>& parameters_;
  const BlockOwners* const owners_;
  const RunGroups groups_;
  const Mesh& mesh_;
  std::map<const SharedParameter*, SliceSquares> taken_;
};

}  // namespace sluice
