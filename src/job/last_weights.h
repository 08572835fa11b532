// The weights of the last finished step, when a later one fails: nothing that was computed is lost.
// Thread-safety: for the thread that ran the ranks, after they have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/plan.h"
#include "sluice/run_config.h"
#include "sluice/trainer.h"
#include "sluice/transport.h"

namespace sluice {

struct LastWeights {
  std::int64_t step = 0;
  std::string path;  // of the published directory
};

// trainers: one a rank, as their threads left them (null: the rank did not get that far). Saves as
// the end of a run does, over transports of its own, since those of the run are aborted. Nothing is
// saved when no step was finished, and, with a warning, when a rank failed within an update, when a
// weight is not finite, or when the save itself fails.
std::optional<LastWeights> save_last_weights(const RunConfig& config, const Plan& plan,
                                             const std::vector<std::unique_ptr<Trainer>>& trainers,
                                             const TransportOptions& transport);

}  // namespace sluice
