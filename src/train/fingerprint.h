// A few bytes of a batch, by which ranks notice that they were given different ones.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/step_batch.h"

namespace sluice {

// Of every input of the first and the last microbatch: a number made of its sizes and of some of
// its elements; 0 where the rank has none (a tensor that has sizes alone, or is on a device that
// would have to be waited for).
std::vector<std::int64_t> fingerprint(const StepBatch& batch);

// Whether two ranks may have been given the same.
bool may_be_same(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b);

}  // namespace sluice
