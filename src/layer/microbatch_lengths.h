// The lengths of the microbatch that a thread computes, which decide whether sequence parallelism
// divides its rows.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/parts/values.h"

namespace sluice::detail {

// Indexed by dimension. Taken from the first input that has the dimension.
using MicrobatchLengths = std::vector<std::int64_t>;
MicrobatchLengths lengths_of(const Values& batch);

// While it lives, this thread computes a microbatch of these lengths (nullptr: unknown), which must
// outlive it.
class MicrobatchScope {
 public:
  explicit MicrobatchScope(const MicrobatchLengths* lengths);
  ~MicrobatchScope();
  MicrobatchScope(const MicrobatchScope&) = delete;
  MicrobatchScope& operator=(const MicrobatchScope&) = delete;

  static const MicrobatchLengths* current();

 private:
  const MicrobatchLengths* outer_;
};

}  // namespace sluice::detail
