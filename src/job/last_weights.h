// The state of the last finished step, when a later one fails: nothing that was computed is lost.
// Thread-safety: for the thread that ran the ranks, after they have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "job/local_ranks.h"
#include "job/rank_saves.h"
#include "sluice/trainer.h"

namespace sluice {

struct LastWeights {
  std::int64_t step = 0;
  std::string path;  // of the published directory
};

// What a rank's thread leaves when its steps fail.
struct InterruptedRank {
  std::unique_ptr<Model> model;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<Trainer> trainer;  // null: the rank did not get that far
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
