// Saves a run every checkpoint.interval steps, on request, at the end, and after a failure. All
// ranks must make the same calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "command/processes.h"
#include "config/run_config.h"
#include "sluice/parts/group.h"
#include "sluice/parts/saver.h"
#include "sluice/pipeline.h"
#include "sluice/trainer.h"

namespace sluice {

using TargetOfStep = std::function<SaveTarget(std::int64_t step)>;

class RankSaves {
 public:
  // `options` and `pipeline` must outlive this object. `warns`: this rank logs warnings.
  RankSaves(const CheckpointOptions& options, TargetOfStep target, Pipeline& pipeline, bool warns)
      : options_(options), target_(std::move(target)), pipeline_(pipeline), warns_(warns) {}

  // Call between steps. Polls a save in flight, and starts a save if one is due. If a save failed,
  // throws its Error(kCheckpoint) on every rank, or warns if checkpoint.on_save_error = "continue".
  void after_step(std::int64_t step, StepRequest request, const Group& world);
  // Saves the final state and waits for the commit.
  std::string finish(std::int64_t step, const Group& world);
  // After a failure, completes a save in flight over new connections (`world`). Returns its outcome
  // if it succeeded.
  std::optional<SaveOutcome> drain(const Group& world);

 private:
  bool is_due(std::int64_t step, StepRequest request) const;
  bool copies() const;
  void settle(const SaveOutcome& outcome);

  const CheckpointOptions& options_;
  const TargetOfStep target_;
  Pipeline& pipeline_;
  const bool warns_;
  Saver saver_;
  std::optional<SaveOutcome> last_;
};

struct LastWeights {
  std::int64_t step = 0;
  std::string path;
};

struct InterruptedRank {
  std::unique_ptr<Model> model;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<Trainer> trainer;  // null if the rank failed before its first step
  std::int64_t began_after = 0;      // steps done before this process
  std::unique_ptr<RankSaves> saves;
};

// Collective over the processes, after the ranks' threads have ended. Completes a save in flight
// and saves the last complete step, over new connections. Warns instead if a rank failed within an
// update or a weight is not finite.
std::optional<LastWeights> save_last_weights(const TargetOfStep& target,
                                             const PerRank<InterruptedRank>& interrupted,
                                             const LocalRanks& ranks, int threads_per_rank);

}  // namespace sluice
