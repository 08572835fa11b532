// The check of a fuzz target's property: a fuzzer looks for the input that aborts.
#pragma once

#include <cstdlib>

namespace sluice::test {

inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace sluice::test
