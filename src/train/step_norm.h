// The norm of the gradients of all parameters, each counted once: by its owner.
//
// Does not own: sums of ties, which come before (tied_sums.h); how norms add up (gradient_norm.h).
// Thread-safety: one rank's thread.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/parts/group.h"
#include "sluice/parts/run_groups.h"
#include "train/block_owners.h"
#include "train/parameter_list.h"

namespace sluice {

struct GradientNorms {
  double total = 0;
  std::vector<std::pair<std::string, double>> of_parameters;  // in layer order; without one: 0
};

// Collective over `world`, the ranks of a pipeline. gradient_of: of a use on this rank; undefined:
// none. The parameters must outlive the work.
Work<GradientNorms> post_gradient_norms(
    const std::vector<SharedParameter>& parameters, const Group& world,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of);

// The same bits, each replica summing the blocks that it owns. Collective over all ranks of the
// mesh.
Work<GradientNorms> post_gradient_norms(const std::vector<SharedParameter>& parameters,
                                        const BlockOwners& owners, const RunGroups& groups,
                                        const Mesh& mesh);

}  // namespace sluice
