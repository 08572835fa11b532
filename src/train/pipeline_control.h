// What a program that runs a pipeline as a service needs beside Pipeline: batches that are already
// cut, saves during training, statistics and post-mortems.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/pipeline.h"

namespace sluice {

struct RankStats {
  StepTimes times;
  std::int64_t peak_bytes = 0;  // 0 without RunOptions::ledger
};

class PipelineControl {
 public:
  // The pipeline must outlive it.
  explicit PipelineControl(Pipeline& pipeline) : impl_(*pipeline.impl_) {}

  // As Pipeline::eval_step(), for microbatches that are already cut, possibly none. Returns all
  // replicas' losses in order, on every rank. Does not check that ranks agree.
  std::vector<MicrobatchLoss> evaluate(const StepBatch& batch);

  // This rank's part of a checkpoint, for a Saver. Tensors are not copied, and only replica 0 has
  // those that replicas share. Sharded optimizer state is gathered into copies, collectively over
  // `world`. A failed step ends the default group.
  RankState state() const;
  RankState state(const Group& world) const;
  // Collective. Loads all that state() saves. `rest` first fills what an adapter's checkpoint
  // lacks. Returns the parameters (of all ranks) without saved optimizer state, which starts at
  // zero with a warning. Throws Error(kCheckpoint).
  std::vector<std::string> load_state(const Checkpoint& checkpoint, const FillStage& rest = {});

  // Collective. Returns the statistics of each rank.
  std::vector<RankStats> gather_stats(const StepTimes& times) const;
  // Collective. Returns the stages that computed weight gradients during I (docs/numbers.md).
  std::vector<int> gather_unsplit_stages() const;

  // After a failure: this rank's last instructions, and the index of the one that ran, or -1.
  std::string flight_record() const;
  int current_instruction() const;

 private:
  Pipeline::Impl& impl_;
};

}  // namespace sluice
