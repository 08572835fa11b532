// The options of a trainer that a configuration asks for.
// Thread-safety: a pure function.
#pragma once

#include "sluice/run_config.h"
#include "sluice/trainer.h"

namespace sluice {

// All but what a run adds: requested, ledger, observers.
TrainerOptions trainer_options(const RunConfig& config);

}  // namespace sluice
