// When one rank of a run saves, and what its saves came to.
//
// Owns: the order of saves: every interval steps, when somebody asked, at the end, after a failure.
// Does not own: how a checkpoint is written (saver.h), what is in its manifest.
// Thread-safety: one rank's thread; collective over all ranks of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "sluice/parts/group.h"
#include "sluice/parts/saver.h"
#include "sluice/pipeline.h"
#include "sluice/run_config.h"

namespace sluice {

// Where a run saves a step, and what the manifest says of the run.
using TargetOfStep = std::function<SaveTarget(std::int64_t step)>;

class RankSaves {
 public:
  // options, pipeline: must outlive it. warns: this rank speaks for the run.
  RankSaves(const CheckpointOptions& options, TargetOfStep target, const Pipeline& pipeline,
            bool warns)
      : options_(options), target_(std::move(target)), pipeline_(pipeline), warns_(warns) {}

  // Between steps. Sees to a save on its way; begins one when the interval or a request says so.
  // Throws the Error(kCheckpoint) of a save that failed, on every rank, unless
  // checkpoint.on_save_error = "continue": then it is a warning.
  void after_step(std::int64_t step, StepRequest request, const Group& world);
  // The state after `step`, at the end: waits until it is committed. Returns the path. Throws
  // Error(kCheckpoint).
  std::string finish(std::int64_t step, const Group& world);
  // Over new endpoints, when the ranks failed: what became of a save on its way. nullopt: there was
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
  std::optional<SaveOutcome> last_;  // that succeeded
};

}  // namespace sluice
