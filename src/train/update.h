// The update of this rank's parameters, stage by stage: clipping, the optimizer, its state.
//
// Does not own: gradients (Stage), the decision to update (train_ops.h).
//
// Invariants:
//  1. Where the state is sharded, a replica updates the blocks that it owns and gives them to the
//     others. The numbers are those of whole parameters: an update goes element by element.
//  2. A parameter with several uses on this rank belongs to the stage of the first, so that all
//     stages together update each parameter once.
// Thread-safety: one rank's thread.
#pragma once

#include <memory>
#include <vector>

#include "sluice/optimizer.h"
#include "sluice/parts/run_groups.h"
#include "train/block_owners.h"
#include "train/parameter_list.h"
#include "train/sharded_parameters.h"

namespace sluice {

class Update {
 public:
  // owners: of blocks, where the state is sharded; null: this rank has all. sharded: parameters of
  // which the replicas keep no more than those blocks. References must outlive it.
  Update(const OptimizerOptions& options, const std::vector<SharedParameter>& parameters,
         const BlockOwners* owners, const RunGroups& groups,
         const ShardedParameters* sharded = nullptr);

  // grad_norm: of all gradients, for clipping. Where the state is sharded, collective over the
  // replicas: when the work is done, this one has the blocks of the others.
  Work<void> run(int stage, double lr, double grad_norm);
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  // What this rank updates.
  struct Target {
    const ParameterUse* use;
    at::Tensor value;    // the parameter, or its own blocks, flat
    ElementRange range;  // of the parameter; sharded alone
  };
  bool is_sharded(const ParameterUse& use) const;
  Work<void> share(int stage);

  const std::vector<SharedParameter>& parameters_;
  const BlockOwners* owners_;
  const ShardedParameters* sharded_;
  const RunGroups groups_;
  const double max_norm_;
  std::vector<Target> targets_;  // in the order of the optimizer's parameters
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace sluice
