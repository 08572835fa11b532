// Updates this rank's parameters stage by stage, with clipping. With zero1 and zero3, a replica
// updates its own blocks and sends them to the others, with the same result as for whole
// parameters. A parameter belongs to the stage of its first use here.
#pragma once

#include <memory>
#include <vector>

#include "optim/optimizer.h"
#include "train/own_blocks.h"

namespace sluice {

class Update {
 public:
  Update(const OptimizerOptions& options, const RankModel& rank);

  // Updates a stage's parameters. grad_norm: of all gradients. With zero1 or zero3 collective over
  // the replicas, until all blocks have arrived.
  Work<void> run(int stage, double lr, double grad_norm);
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  const RankModel& rank_;
  const double max_norm_;
  std::vector<OwnBlocks> targets_;  // in the order of the optimizer's parameters
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace sluice
