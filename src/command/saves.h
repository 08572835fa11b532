// The saves of a run: every interval steps, on request, at the end, and of the last finished step
// when a later one fails, so that no computed step is lost.
//
// Owns: the times at which a rank saves, and the outcomes of its saves. Does not own: writing a
// checkpoint (saver.h), the content of its manifest (ProcessRun::target).
// Thread-safety: RankSaves is for one rank's thread, collective over all ranks of the run;
// save_last_weights() for the thread that ran the ranks, after they have ended.
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

// The place where a run saves a step, and what the manifest says of the run.
using TargetOfStep = std::function<SaveTarget(std::int64_t step)>;

class RankSaves {
 public:
  // options, pipeline: must outlive it. warns: this rank speaks for the run.
  RankSaves(const CheckpointOptions& options, TargetOfStep target, const Pipeline& pipeline,
            bool warns)
      : options_(options), target_(std::move(target)), pipeline_(pipeline), warns_(warns) {}

  // Called between steps. Polls a save in flight; starts one when the interval or a request asks
  // for it. Throws the Error(kCheckpoint) of a save that failed, on every rank, unless
  // checkpoint.on_save_error = "continue": then it is a warning.
  void after_step(std::int64_t step, StepRequest request, const Group& world);
  // Saves the state after `step`, at the end, and waits for the commit. Returns the path. Throws
  // Error(kCheckpoint).
  std::string finish(std::int64_t step, const Group& world);
  // The outcome of a save in flight, over new endpoints, after the ranks failed. nullopt: there was
  // none, or it failed.
  std::optional<SaveOutcome> drain(const Group& world);

 private:
  bool is_due(std::int64_t step, StepRequest request) const;
  bool copies() const;
  void settle(const SaveOutcome& outcome);

  const CheckpointOptions& options_;
  const TargetOfStep target_;
  const Pipeline& pipeline_;
  const bool warns_;
  Saver saver_;
  std::optional<SaveOutcome> last_;  // last save that succeeded
};

struct LastWeights {
  std::int64_t step = 0;
  std::string path;  // path of the published directory
};

// The objects that a rank's thread leaves when its steps fail.
struct InterruptedRank {
  std::unique_ptr<Model> model;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<Trainer> trainer;  // null: the rank did not get that far
  std::int64_t began_after = 0;      // so many steps
  std::unique_ptr<RankSaves> saves;
};

// Collective over the processes of the run. interrupted: as the ranks' threads left them. Ends a
// save that was on its way, and saves as the end of a run does, over new endpoints, since those of
// the run are aborted; all ranks come to the same result. Nothing is saved when no step was
// finished, and, with a warning of the speaker's process, when a rank failed within an update, when
// a weight is not finite, or when the save itself fails.
std::optional<LastWeights> save_last_weights(const TargetOfStep& target,
                                             const PerRank<InterruptedRank>& interrupted,
                                             const LocalRanks& ranks, int threads_per_rank);

}  // namespace sluice
