#pragma once

#include <cstdint>

#include "config/run_config.h"

namespace sluice {

struct BatchSizes {
  std::int64_t global_batch = 0;
  // sequences per replica; replica r starts at sequence r * local_batch
  std::int64_t local_batch = 0;
  int num_microbatches = 0;
};

// `config` must come from load_run_config().
BatchSizes batch_sizes(const RunConfig& config);

// Returns a configuration with one replica that computes the same bits, by summing gradients in as
// many shards. With fixed tensor slices, it also has one tensor-parallel rank. Fingerprints use it,
// so that resuming with another layout of equal bits is no change.
RunConfig as_one_replica(RunConfig config);

}  // namespace sluice
