// Batch sizes of one step, from the key that the configuration sets: local or global batch size.
#pragma once

#include <cstdint>

#include "config/run_config.h"

namespace sluice {

struct BatchSizes {
  std::int64_t global_batch = 0;  // sequences per step over all replicas
  std::int64_t local_batch = 0;   // sequences per replica; replica r starts at r * local_batch
  int num_microbatches = 0;       // per replica
};

// `config` must come from load_run_config(), which checks that the sizes divide evenly.
BatchSizes batch_sizes(const RunConfig& config);

// Returns the configuration of one replica that computes the same bits: the whole batch, as many
// gradient shards, and one tensor-parallel rank if the slices are fixed. A degree that changes the
// bits is kept. A resumed run compares its settings in this form, so that another layout with the
// same bits is not a change.
// another layout with the same bits is no change.
RunConfig as_one_replica(RunConfig config);

}  // namespace sluice
