// Mistakes that a user can make when making an Executor or giving it a batch.
// Thread-safety: pure functions.
#pragma once

#include <map>

#include "sluice/parts/stage.h"
#include "sluice/parts/transport.h"
#include "sluice/parts/values.h"
#include "sluice/program.h"

namespace sluice {

// Throws Error(kUsage) unless `stages` are those of `rank`, and the transport is this rank's, of as
// many as the program has.
void check_layout(const Program& program, int rank, const std::map<int, Stage*>& stages,
                  const Transport& transport);

// Throws Error(kUsage) for another number of microbatches or counts than the program's.
void check_batch(const Program& program, int rank, const StepBatch& batch);

}  // namespace sluice
