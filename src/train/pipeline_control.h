// Extends Pipeline for services that train: batches that are already split into microbatches, saves
// during training, statistics and post-mortems.
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
  // The pipeline must outlive this object.
  explicit PipelineControl(Pipeline& pipeline) : impl_(*pipeline.impl_) {}

  // Evaluates microbatches, possibly none. Returns all replicas' losses in order, on every rank.
  // Unlike Pipeline::eval_step(), does not check that ranks agree.
  std::vector<MicrobatchLoss> evaluate(const StepBatch& batch);

  // Returns this rank's part of a checkpoint, for a Saver. Does not copy tensors. Only replica 0
  // returns tensors that replicas share. Sharded optimizer state is gathered into copies,
  // collectively over `world`. After a failed step, the default group is unusable.
  RankState state() const;
  RankState state(const Group& world) const;
  // Loads all that state() saves. Collective. `rest` first fills parameters that an adapter's
  // checkpoint lacks. Returns the parameters of all ranks without saved optimizer state, which
  // starts at zero with a warning. Throws Error(kCheckpoint).
  std::vector<std::string> load_state(const Checkpoint& checkpoint, const FillStage& rest = {});

  // Collective. Returns the statistics of every rank.
  std::vector<RankStats> gather_stats(const StepTimes& times) const;
  // Returns the stages whose backward could not be split into input and weight gradients
  // (docs/numbers.md). Collective.
  std::vector<int> gather_unsplit_stages() const;

  // After a failure: this rank's last instructions, and the index of the running one, or -1.
  std::string flight_record() const;
  int current_instruction() const;

 private:
  Pipeline::Impl& impl_;
};

}  // namespace sluice
