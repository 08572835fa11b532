// Lists the trainable parameters of all ranks in layer order. Equal copies are listed once. With
// tensor parallelism, each pipeline lists its own slices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/run_groups.h"
#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"
#include "sluice/parts/stage.h"

namespace sluice {

struct ParameterUse {
  int layer = 0;
  int position = 0;
  std::string name;
  int rank = 0;  // first rank that holds this use
  bool has_replicas = false;
  bool is_divided = false;
  bool of_expert = false;
  SliceRange slices = {};
  Stage* stage = nullptr;  // null if on another rank
  std::size_t index = 0;

  at::Tensor& gradient() const { return stage->gradient(index); }
  at::Tensor& value() const { return stage->parameters()[index].tensor; }
};

// A parameter with all its uses in layer order. Tied parameters have several.
struct SharedParameter {
  std::string name;
  std::vector<ParameterUse> uses;
  std::vector<int> ranks;
  Group group;  // set only on the ranks in `ranks`

  // Tensor-parallel slices on this pipeline. A weight that all slices share has one use per slice.
  bool is_divided = false;
  bool is_shared_by_slices = false;
  SliceRange slices = {};

  // The parameter's place of the pipeline and, for an expert, coordinate along ep. Experts of other
  // coordinates have no use on this pipeline's ranks (kElsewhere).
  static constexpr int kElsewhere = -1;
  int place = 0;
  std::optional<int> expert_coordinate = {};

  int owner() const { return uses.front().rank; }
  // Whether the gradient is a sum over several slices.
  bool has_partial_sums() const { return is_shared_by_slices && slices.count > 1; }
  // Returns the first use on this rank, or null.
  const ParameterUse* local_use() const;
};

// Adds the experts that other ranks hold, in layer order, for norms of all parameters. Collective
// over the ranks that share experts.
std::vector<SharedParameter> with_other_experts(std::vector<SharedParameter> own,
                                                const RunGroups& groups);

// Collective over all ranks of the mesh. Only `stage`, `index` and `group` differ between ranks.
// Throws Error(kUsage) if a parameter's uses differ in slices or are partly frozen, and
// Error(kInternal) for ties that cannot be summed.
std::vector<SharedParameter> list_parameters(const std::vector<Stage*>& stages, const Group& world,
                                             const Mesh& mesh);

}  // namespace sluice
