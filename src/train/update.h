// Updates this rank's parameters stage by stage, with gradient clipping.
//
// With sharded state, a replica updates the blocks that it owns and sends them to the others.
// Optimizers work element by element, so the numbers equal an update of whole parameters. A
// parameter with several uses on this rank belongs to the stage of the first use, so all stages
// together update each parameter once.
#pragma once

#include <memory>
#include <vector>

#include "optim/optimizer.h"
#include "train/own_blocks.h"

namespace sluice {

class Update {
 public:
  // `rank` must outlive this object.
  Update(const OptimizerOptions& options, const RankModel& rank);

  // grad_norm: norm of all gradients, for clipping. With sharded state this is collective over the
  // replicas, and the work is done when the other replicas' blocks have arrived.
  Work<void> run(int stage, double lr, double grad_norm);
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  const RankModel& rank_;
  const double max_norm_;
  std::vector<OwnBlocks> targets_;  // in the order of the optimizer's parameters
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace sluice
