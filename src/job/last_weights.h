// The weights of the last finished step, when a later one fails: nothing that was computed is lost.
// Thread-safety: for the thread that ran the ranks, after they have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "job/local_ranks.h"
#include "sluice/plan.h"
#include "sluice/run_config.h"
#include "sluice/trainer.h"

namespace sluice {

struct LastWeights {
  std::int64_t step = 0;
  std::string path;  // of the published directory
};

// Collective over the processes of the run. trainers: as the ranks' threads left them (null: the
// rank did not get that far). Saves as the end of a run does, over new endpoints, since those of
// the run are aborted; all ranks come to the same result. Nothing is saved when no step was
// finished, and, with a warning of the speaker's process, when a rank failed within an update, when
// a weight is not finite, or when the save itself fails.
std::optional<LastWeights> save_last_weights(const RunConfig& config, const Plan& plan,
                                             const PerRank<std::unique_ptr<Trainer>>& trainers,
                                             const LocalRanks& ranks);

}  // namespace sluice
