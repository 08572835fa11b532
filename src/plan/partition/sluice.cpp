// sluice's own split. Embedding, norm and head do not count as layers unless weights are given. The
// remainder of 10 layers on 4 stages:
//
//   first 3 3 2 2, last 2 2 3 3, middle 2 3 3 2
#include "plan/partition/convention.h"
#include "plan/partition/shares.h"

namespace sluice::detail {

Split sluice_split(const ModelSpec& model, const PartitionOptions& options,
                   const ScheduleInfo* schedule) {
  LayerNames layers = hf_names(model);
  if (!options.split_points.empty()) return split_before(layers, options.split_points, false);
  if (!options.cuts.empty()) return split_after(layers, options.cuts);
  if (!options.modules.empty()) return split_as_listed(layers, options.modules);
  const EndWeights weights = end_weights(find_convention(options.convention), options);
  require_count("the weight of the first stage", weights.first, 0);
  require_count("the weight of the last stage", weights.last, 0);
  const int num_stages =
      counted_stages(options, schedule, layers.num_decoders, weights.first + weights.last);
  require_layer_each(num_stages, layers.num_decoders);
  return split_by_shares(
      layers, weighted_shares(layers.num_decoders, num_stages, weights.first, weights.last,
                              options.remainder.value_or(Remainder::kFirst)));
}

}  // namespace sluice::detail
