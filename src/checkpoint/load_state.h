// A checkpoint into the stages of all ranks, by full name.
// Thread-safety: one rank's thread; collective.
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

// Collective over all ranks. Fills parameters (or this rank's slices of them) and buffers of the
// stages; other uses of a tied parameter from its first. Everything is looked up and compared
// before anything is written. Of a checkpoint of an adapter alone only its parameters are filled.
// Throws Error(kCheckpoint): a tensor that is missing, or of another
// shape, or in the checkpoint but on no rank.
// begin, end (may be empty): called around each stage, whose parameters need memory between them
// only.
void load_stages(const Checkpoint& checkpoint, const std::vector<Stage*>& stages,
                 const Group& world, const std::function<void(Stage& stage)>& begin = {},
                 const std::function<void(Stage& stage)>& end = {});

// Some elements of a tensor of the optimizer's state, in the order of memory.
struct StatePart {
  std::string name;                 // in the checkpoint
  at::Tensor tensor;                // these elements, contiguous
  std::vector<std::int64_t> shape;  // shape of the whole tensor
  std::int64_t begin = 0;           // the first of the elements
  // The parameter of which this rank holds slices: `begin` is among what it holds. null: it holds
  // all.
  const ParameterInfo* parameter = nullptr;
};
// Fills what the checkpoint has of {"exp_avg/NAME", ..}, reading no more than the rows that the
// elements are in; the rest becomes zero: what was frozen when it was saved has no state. Returns
// the names of those parameters. Throws Error(kCheckpoint) for another shape.
std::vector<std::string> load_optimizer(const Checkpoint& checkpoint,
                                        const std::vector<StatePart>& state);

}  // namespace sluice
