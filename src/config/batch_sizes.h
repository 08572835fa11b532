// Numbers of sequences and microbatches of a configuration's step, whichever key says them.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "config/run_config.h"

namespace sluice {

struct BatchSizes {
  std::int64_t global_batch = 0;  // sequences of a step of all replicas: the data advances by these
  std::int64_t local_batch = 0;   // sequences of replica r, from r * local_batch on
  int num_microbatches = 0;       // number of microbatches of a replica
};

// Precondition: load_run_config() made it, so that sizes divide evenly.
BatchSizes batch_sizes(const RunConfig& config);

// The configuration of one replica that computes the same bits: the whole batch, as many shards,
// and one tensor-parallel rank where the slices are fixed. A degree on which the bits depend stays
// as it is. The settings that decide the numbers of a run are compared in this form, so that
// another layout with the same bits is no change.
RunConfig as_one_replica(RunConfig config);

}  // namespace sluice
