// Updates this rank's parameters stage by stage, with clipping. With zero1 and zero3, a replica
// updates the blocks that it owns and sends them to the other replicas, with the same result. A
// parameter belongs to the stage of its first use on this rank.
#pragma once

#include <memory>
#include <vector>

#include "optim/optimizer.h"
#include "train/own_blocks.h"

namespace sluice {

class Update {
 public:
  Update(const OptimizerOptions& options, const RankModel& rank);

  // Updates a stage's parameters. grad_norm: norm of all gradients. With zero1 or zero3, collective
  // over the replicas, and done when all blocks have arrived.
  Work<void> run(int stage, double lr, double grad_norm);
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  const RankModel& rank_;
  const double max_norm_;
  std::vector<OwnBlocks> targets_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace sluice
