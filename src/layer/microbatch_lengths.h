// The lengths of the microbatch that a thread computes. Sequence parallelism uses them to decide
// whether a tensor has divided rows.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/parts/values.h"

namespace sluice::detail {

// One length per dimension, from the first input that has this dimension.
using MicrobatchLengths = std::vector<std::int64_t>;
MicrobatchLengths lengths_of(const Values& batch);

// This thread computes a microbatch of these lengths (null: unknown) while the scope exists.
// `lengths` must outlive the scope.
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
