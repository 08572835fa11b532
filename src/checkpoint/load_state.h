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

// Collective. Fills parameters, or this rank's slices, and buffers. Tied parameters are filled from
// their first use. A checkpoint of an adapter fills only the adapter's parameters. All checks
// precede all writes. Throws Error(kCheckpoint). begin and end surround each stage, whose
// parameters need memory only between them.
void load_stages(const Checkpoint& checkpoint, const std::vector<Stage*>& stages,
                 const Group& world, const std::function<void(Stage& stage)>& begin = {},
                 const std::function<void(Stage& stage)>& end = {});

// A contiguous range of a tensor of the optimizer's state.
struct StatePart {
  std::string name;
  at::Tensor tensor;                // the range
  std::vector<std::int64_t> shape;  // whole shape
  std::int64_t begin = 0;
  // Set if this rank holds slices of the parameter. `begin` then counts elements that it holds.
  const ParameterInfo* parameter = nullptr;
};
// Fills {"exp_avg/NAME", ..}, reading only the rows of these elements. Missing state becomes zero,
// as for parameters that were frozen, and their names are returned. Throws Error(kCheckpoint).
std::vector<std::string> load_optimizer(const Checkpoint& checkpoint,
                                        const std::vector<StatePart>& state);

}  // namespace sluice
