// A host copy of a rank's state, which stays unchanged while training continues.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sluice/parts/saver.h"

namespace sluice {

class Snapshot {
 public:
  // Reuses its memory, so the result is valid until the next call. For GPU state, memory is
  // page-locked.
  RankState take(const RankState& state);

 private:
  NamedTensors copy(const char* kind, const NamedTensors& tensors);

  std::vector<at::Tensor> copied_;
  std::map<std::string, at::Tensor> buffers_;
};

}  // namespace sluice
