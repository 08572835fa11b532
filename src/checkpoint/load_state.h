#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/checkpoint.h"
#include "sluice/parts/group.h"
#include "sluice/parts/saver.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Fills parameters, or this rank's slices, and buffers. Collective. Tied parameters are filled from
// their first use. An adapter's checkpoint fills only adapter parameters. All checks precede all
// writes. Throws Error(kCheckpoint). begin, end: called before and after each stage, whose
// parameters need memory only in between.
void load_stages(const Checkpoint& checkpoint, const std::vector<Stage*>& stages,
                 const Group& world, const std::function<void(Stage& stage)>& begin = {},
                 const std::function<void(Stage& stage)>& end = {});

// A contiguous range of an optimizer state tensor.
struct StatePart {
  std::string name;
  at::Tensor tensor;                // the range's elements
  std::vector<std::int64_t> shape;  // of the whole tensor
  std::int64_t begin = 0;
  // Set if this rank has tensor-parallel slices of the parameter. `begin` then counts elements in
  // these slices.
  const ParameterInfo* parameter = nullptr;
};
// Fills optimizer state {"exp_avg/NAME", ..}, reading only the needed rows. Missing state becomes
// zero, as for formerly frozen parameters. Returns the parameters without saved state. Throws
// Error(kCheckpoint).
std::vector<std::string> load_optimizer(const Checkpoint& checkpoint,
                                        const std::vector<StatePart>& state);

}  // namespace sluice
