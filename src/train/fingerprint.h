// A few numbers made of a batch, by which ranks notice that they were given different ones.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/values.h"

namespace sluice {

// Compared elements of a batch: all, which costs a pass over them, or some of the first and the
// last microbatch.
enum class Compared : std::uint8_t { kAll, kSome };

// A number for every input of every microbatch, or of these two, made of its sizes and elements; 0
// where the rank has none (a tensor that has sizes alone, or is on a device that would have to be
// waited for).
std::vector<std::int64_t> fingerprint(const StepBatch& batch, Compared compared);

// True if two ranks may have been given the same batch.
bool may_be_same(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b);

}  // namespace sluice
