// Lists all trainable parameters of all ranks in layer order, for the gradient norm and for sums of
// tied gradients. If several ranks hold the same copy (ParameterInfo::replicated), the list names
// the first rank. Each pipeline lists its own slices of divided parameters.
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
  int position = 0;  // index among the parameters of its layer
  std::string name;
  int rank = 0;  // first rank that holds the use
  bool has_replicas = false;
  // Copied from ParameterInfo, for this pipeline's ranks.
  bool is_divided = false;
  SliceRange slices = {};
  Stage* stage = nullptr;  // null if this rank does not hold the use
  std::size_t index = 0;   // index in stage->parameters()

  at::Tensor& gradient() const { return stage->gradient(index); }
  at::Tensor& value() const { return stage->parameters()[index].tensor; }
};

// A parameter with all its uses in layer order. An untied parameter has one use.
struct SharedParameter {
  std::string name;  // name of the first use
  std::vector<ParameterUse> uses;
  std::vector<int> ranks;  // ascending, without repetition
  Group group;             // group of `ranks`, set on its members if there are several

  // The slices that this pipeline holds. For a weight that all slices share, these are the slices
  // whose gradients its uses hold.
  bool is_divided = false;
  bool is_shared_by_slices = false;
  SliceRange slices = {};

  int owner() const { return uses.front().rank; }
  // Whether the gradient is a sum over all slices, which may be on several ranks
  // (ParameterInfo::summed).
  bool has_partial_sums() const { return is_shared_by_slices && slices.count > 1; }
  // Returns the first use on this rank, or null.
  const ParameterUse* local_use() const;
};

// Collective over all ranks of the mesh. The list is the same on every rank, except for `stage`,
// `index` and `group`. Throws Error(kUsage) if the uses of a tie have different slices or only some
// are frozen. Throws Error(kInternal) for ties that cannot be summed.
std::vector<SharedParameter> list_parameters(const std::vector<Stage*>& stages, const Group& world,
                                             const Mesh& mesh);

}  // namespace sluice
