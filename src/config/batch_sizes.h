#pragma once

#include <cstdint>

#include "config/run_config.h"

namespace sluice {

struct BatchSizes {
  std::int64_t global_batch = 0;
  std::int64_t local_batch = 0;  // sequences per replica; replica r starts at r * local_batch
  int num_microbatches = 0;
};

// `config` must come from load_run_config().
BatchSizes batch_sizes(const RunConfig& config);

// Returns a configuration with one replica that computes the same bits, from the whole batch in as
// many gradient shards. If the number of slices is fixed, it also has one tensor-parallel rank.
// Resumed runs are compared in this form, so that another layout with equal bits is not a change.
RunConfig as_one_replica(RunConfig config);

}  // namespace sluice
