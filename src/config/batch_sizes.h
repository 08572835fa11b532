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

// Returns a configuration of one replica that computes the same bits as `config`, because it keeps
// the number of gradient shards. If the number of tensor slices is fixed, the result also has one
// tensor-parallel rank. Fingerprints hash this configuration, so a run may resume with any layout
// that computes the same bits.
RunConfig as_one_replica(RunConfig config);

}  // namespace sluice
