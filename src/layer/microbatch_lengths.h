// The lengths of the microbatch that a thread computes, by which layers that ranks share know
// whether its rows are divided.
//
// Owns: scopes that say which microbatch it is. Does not own: what follows from it
// (sluice/parts/tensor_parallel.h).
// Thread-safety: a scope belongs to the thread that entered it.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/parts/values.h"

namespace sluice::detail {

// Along each dimension the length of the first input that has it.
using MicrobatchLengths = std::vector<std::int64_t>;
MicrobatchLengths lengths_of(const Values& batch);

// While it lives, a microbatch of these lengths, which must outlive it, is computed on this thread.
// nullptr: of unknown ones.
class MicrobatchScope {
 public:
  explicit MicrobatchScope(const MicrobatchLengths* lengths);
  ~MicrobatchScope();
  MicrobatchScope(const MicrobatchScope&) = delete;
  MicrobatchScope& operator=(const MicrobatchScope&) = delete;

  // Those of the innermost scope of this thread, or nullptr.
  static const MicrobatchLengths* current();

 private:
  const MicrobatchLengths* outer_;
};

}  // namespace sluice::detail
