// A copy of a rank's state on the host, which does not change while training continues.
// Thread-safety: one thread at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sluice/parts/saver.h"

namespace sluice {

class Snapshot {
 public:
  // Copies into memory that is kept for the next time: page-locked where the state is on a GPU.
  // The returned state is valid until then.
  RankState take(const RankState& state);

 private:
  NamedTensors copy(const char* kind, const NamedTensors& tensors);

  std::vector<at::Tensor> copied_;             // what a take() copies from
  std::map<std::string, at::Tensor> buffers_;  // by kind and name
};

}  // namespace sluice
