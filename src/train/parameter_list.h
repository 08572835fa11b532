// All trainable parameters of all ranks, in layer order: what norm and tied sums go by. Of those
// that several ranks hold alike (ParameterInfo::replicated), the first rank's stand for all.
#pragma once

#include <string>
#include <vector>

#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"
#include "sluice/parts/stage.h"

namespace sluice {

// One use of a parameter somewhere in the pipeline.
struct ParameterUse {
  int layer = 0;
  int position = 0;  // among the parameters of its layer
  std::string name;  // of this use
  int rank = 0;      // the first that holds it
  bool has_replicas = false;
  Stage* stage = nullptr;  // null where this rank does not hold it
  std::size_t index = 0;   // within stage->parameters()

  at::Tensor& gradient() const { return stage->gradient(index); }
  at::Tensor& value() const { return stage->parameters()[index].tensor; }
};

// A parameter with all its uses, in layer order. Untied: one use.
struct SharedParameter {
  std::string name;  // of the first use
  std::vector<ParameterUse> uses;
  std::vector<int> ranks;  // ascending, each once
  Group group;             // of these ranks, on each of them, when they are several

  int owner() const { return uses.front().rank; }
  // The first use on this rank, or null.
  const ParameterUse* local_use() const;
};

// Collective over all ranks, which are those of the mesh; the same list on each, but for `stage`
// and `group`. Throws Error(kUsage), Error(kInternal): see TrainOps.
std::vector<SharedParameter> list_parameters(const std::vector<Stage*>& stages, const Group& world,
                                             const Mesh& mesh);

}  // namespace sluice
