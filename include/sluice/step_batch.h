// One step's data, as the data set makes it and the executor runs it.
//
// Owns: StepBatch. Does not own: where it comes from (token_data.h), what is done with it
// (executor.h). Thread-safety: values.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/layer.h"

namespace sluice {

// One step's data: the same on every rank.
struct StepBatch {
  std::int64_t step = 0;             // 1-based; key of random numbers
  std::vector<Values> microbatches;  // batch inputs of each
  std::vector<std::int64_t> counts;  // counted tokens of each
};

}  // namespace sluice
