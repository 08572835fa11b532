// torchtitan's split points (2025): cut before the named layer, or generated with the weights of
// embedding and head, 1 unless given. Stages hold tok_embeddings, layers.K, norm, output.
#include "plan/partition_rules/torchtitan.h"
#include "plan/partition/convention.h"
#include "plan/partition_rules/shares.h"

namespace sluice::detail {

Split torchtitan_split(const ModelSpec& model, const PartitionOptions& options,
                       const ScheduleInfo* schedule) {
  const LayerNames layers = titan_names(model, "output");
  if (!options.split_points.empty()) return split_before(layers, options.split_points, true);
  const int input_weight = options.first_stage_weight.value_or(1);
  const int output_weight = options.last_stage_weight.value_or(1);
  const int num_stages =
      options.layers_per_stage > 0
          ? rigid_num_stages(stages_need(schedule), required_ranks(options), layers.num_decoders,
                             options.layers_per_stage, input_weight, output_weight)
          : counted_stages(options, schedule, layers.num_decoders);
  const std::vector<int> shares = weighted_shares(layers.num_decoders, num_stages, input_weight,
                                                  output_weight, Remainder::kFirst);
  Split split = split_by_shares(layers, shares);
  split.split_points = titan_split_points(first_layers(shares));
  return split;
}

}  // namespace sluice::detail
