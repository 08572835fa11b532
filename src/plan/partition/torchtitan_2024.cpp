// torchtitan's first split points (October 2024): no weights, no layers per stage; the first stage
// has the base number of layers and the extra ones go to those after it.
//   10 layers, 4 stages: 2 3 3 2
#include "plan/partition/convention.h"
#include "plan/partition_rules/shares.h"
#include "plan/partition_rules/torchtitan.h"

namespace sluice::detail {

Split torchtitan_2024_split(const ModelSpec& model, const PartitionOptions& options,
                            const ScheduleInfo* schedule) {
  const LayerNames layers = titan_names(model, "output");
  if (!options.split_points.empty()) return split_before(layers, options.split_points, true);
  return split_by_shares(
      layers,
      shares_2024(layers.num_decoders, counted_stages(options, schedule, layers.num_decoders)));
}

}  // namespace sluice::detail
