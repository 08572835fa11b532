#pragma once

#include "sluice/model.h"
#include "sluice/partition.h"
#include "sluice/parts/layout.h"

namespace sluice::test {

// Gives all layers equal weight. The first stages get the remainder.
inline Partition even_partition(const Model& model, const StageMap& stage_map) {
  ModelSpec spec = describe(model.layers);
  for (LayerInfo& layer : spec.layers) layer.role = LayerRole::kBlock;
  PartitionOptions options;
  options.schedule = std::nullopt;
  options.num_ranks = stage_map.num_ranks();
  options.num_stages = stage_map.num_stages();
  options.stage_to_rank = stage_map.ranks();
  return make_partition(spec, options);
}

}  // namespace sluice::test
