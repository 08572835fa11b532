// What one rank puts into a checkpoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sluice/parts/stage.h"

namespace sluice {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct RankState {
  NamedTensors parameters;  // whole; a tied one on the rank of its first use, under that name
  NamedTensors buffers;     // several ranks may have one of a name, if it is the same
  NamedTensors optimizer;   // of these parameters
  std::map<std::string, std::string> ties;  // another use, on this rank -> the first
  NamedTensors extra;                       // rank 0's are saved
};

// Parameters, buffers and ties of a rank's stages. Throws Error(kInternal) for a parameter of which
// this rank has a slice.
RankState state_of(const std::vector<Stage*>& stages);

// Of {"exp_avg/NAME", tensor}, ..: those of the state's own parameters.
NamedTensors optimizer_state_of(const RankState& state, const NamedTensors& all);

}  // namespace sluice
