// The update of this rank's parameters, stage by stage: clipping, the optimizer, its state.
//
// Does not own: gradients (Stage), the decision to update (trainers_update.h), what this rank
// updates and how the others get it (own_blocks.h).
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

#include "optim/optimizer.h"
#include "train/own_blocks.h"

namespace sluice {

class Update {
 public:
  // The rank must outlive it.
  Update(const OptimizerOptions& options, const RankModel& rank);

  // grad_norm: of all gradients, for clipping. Where the state is sharded, collective over the
  // replicas: when the work is done, this one has the blocks of the others.
  Work<void> run(int stage, double lr, double grad_norm);
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  const RankModel& rank_;
  const double max_norm_;
  std::vector<OwnBlocks> targets_;  // in the order of the optimizer's parameters
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace sluice
