// The update of this rank's parameters: clipping, the optimizer, its state.
//
// Does not own: gradients (Stage), the decision to update (train_ops.h).
//
// Invariant: where the state is sharded, a replica updates the blocks that it owns and gives them
// to the others. The numbers are those of whole parameters: an update goes element by element.
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

  // grad_norm: of all gradients, for clipping. Collective over the replicas where the state is
  // sharded.
  void run(double lr, double grad_norm);
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  // What this rank updates.
  struct Target {
    const ParameterUse* use;
    at::Tensor value;    // the parameter, or its own blocks, flat
    ElementRange range;  // of the parameter; sharded alone
  };
  bool is_sharded(const ParameterUse& use) const;
  void share();

  const std::vector<SharedParameter>& parameters_;
  const BlockOwners* owners_;
  const ShardedParameters* sharded_;
  const RunGroups groups_;
  const double max_norm_;
  std::vector<Target> targets_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace sluice
