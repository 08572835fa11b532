// All trainable parameters of all ranks, in layer order: what norm and tied sums go by. Of those
// that several ranks hold alike (ParameterInfo::replicated), the first rank's stand for all. Of
// those that are divided, each pipeline lists its slices.
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
  std::string name;  // name of this use
  int rank = 0;      // the first that holds it
  bool has_replicas = false;
  // As in its ParameterInfo, of this pipeline's ranks.
  bool is_divided = false;
  SliceRange slices = {};
  Stage* stage = nullptr;  // null where this rank does not hold it
  std::size_t index = 0;   // within stage->parameters()

  at::Tensor& gradient() const { return stage->gradient(index); }
  at::Tensor& value() const { return stage->parameters()[index].tensor; }
};

// A parameter with all its uses, in layer order. Untied: one use.
struct SharedParameter {
  std::string name;  // name of the first use
  std::vector<ParameterUse> uses;
  std::vector<int> ranks;  // ascending, each once
  Group group;             // group of these ranks, on each of them, if they are several

  // The slices of this pipeline, of a divided one; of one that all slices share, those whose
  // gradients its uses have.
  bool is_divided = false;
  bool is_shared_by_slices = false;
  SliceRange slices = {};

  int owner() const { return uses.front().rank; }
  // Its gradient is the sum over all slices, which may be on several ranks (ParameterInfo::summed).
  bool has_partial_sums() const { return is_shared_by_slices && slices.count > 1; }
  // The first use on this rank, or null.
  const ParameterUse* local_use() const;
};

// Collective over all ranks, which are those of the mesh; the same list on each, but for `stage`
// and `group`. Throws Error(kUsage), Error(kInternal): see TrainOps.
std::vector<SharedParameter> list_parameters(const std::vector<Stage*>& stages, const Group& world,
                                             const Mesh& mesh);

}  // namespace sluice
