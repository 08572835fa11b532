// torchtitan's module lists (since July 2025): given per stage, or generated from the number of
// stages, weights counted. Stages hold tok_embeddings, layers.K, norm, lm_head.
#include "plan/partition/convention.h"
#include "plan/partition_rules/shares.h"
#include "plan/partition_rules/torchtitan.h"

namespace sluice::detail {

Split torchtitan_current_split(const ModelSpec& model, const PartitionOptions& options,
                               const ScheduleInfo* schedule) {
  const LayerNames layers = titan_names(model, "lm_head");
  if (!options.modules.empty()) return split_as_listed(layers, options.modules);
  const int input_weight = options.first_stage_weight.value_or(1);
  const int output_weight = options.last_stage_weight.value_or(1);
  const int num_stages =
      counted_stages(options, schedule, layers.num_decoders, input_weight + output_weight);
  const std::vector<int> shares = weighted_shares(layers.num_decoders, num_stages, input_weight,
                                                  output_weight, Remainder::kFirst);
  Split split = split_by_shares(layers, shares);
  split.split_points = titan_split_points(first_layers(shares));
  return split;
}

}  // namespace sluice::detail
