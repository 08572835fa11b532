// Aborts if the property does not hold, because a fuzzer looks for inputs that abort.
#pragma once

#include <cstdlib>

namespace sluice::test {

inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace sluice::test
