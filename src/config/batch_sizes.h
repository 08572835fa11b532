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

// Returns a configuration with one replica that computes the same bits, because it sums gradients
// in as many shards. With a fixed number of tensor slices, it also has one tensor-parallel rank.
// Fingerprints use this form, so that a resume with another layout is no change if the bits are
// equal.
RunConfig as_one_replica(RunConfig config);

}  // namespace sluice
