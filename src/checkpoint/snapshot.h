// Copies a rank's state to host memory, so that it stays unchanged while training continues.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sluice/parts/saver.h"

namespace sluice {

class Snapshot {
 public:
  // Returns a copy in memory that the next call reuses. The memory is page-locked for GPU state.
  RankState take(const RankState& state);

 private:
  NamedTensors copy(const char* kind, const NamedTensors& tensors);

  std::vector<at::Tensor> copied_;
  std::map<std::string, at::Tensor> buffers_;
};

}  // namespace sluice
