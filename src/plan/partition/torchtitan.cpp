// torchtitan's three generations of splits, for tok_embeddings, layers.K, norm and the head.
//
//   torchtitan-2024     split points (October 2024): no weights; extra layers go to the stages
//                       after the first
//   torchtitan          split points (2025): before named layers, or generated with weights of
//                       embedding and head (default 1)
//   torchtitan-current  module lists (since July 2025): given, or generated from the number of
//                       stages with the same weights; the head is lm_head
//
// 32 layers on 4 stages: 8 8 8 8 without weights, 8 9 8 7 with them. 10 layers: always 2 3 3 2.
#include "plan/partition/torchtitan_rules.h"

#include "plan/partition/convention.h"
#include "plan/partition/shares.h"

namespace sluice::detail {
namespace {

EndWeights weights_of(const PartitionOptions& options) {
  return end_weights(find_convention(options.convention), options);
}

// torchtitan names cuts by decoder layer, even by the number after the last.
Split weighted_split(const LayerNames& layers, int num_stages, const EndWeights& weights) {
  const std::vector<int> shares = weighted_shares(layers.num_decoders, num_stages, weights.first,
                                                  weights.last, Remainder::kFirst);
  Split split = split_by_shares(layers, shares);
  split.split_points = titan_split_points(first_layers(shares));
  return split;
}

}  // namespace

Split torchtitan_2024_split(const ModelSpec& model, const PartitionOptions& options,
                            const ScheduleInfo* schedule) {
  const LayerNames layers = titan_names(model, "output");
  if (!options.split_points.empty()) return split_before(layers, options.split_points, true);
  return split_by_shares(
      layers,
      shares_2024(layers.num_decoders, counted_stages(options, schedule, layers.num_decoders)));
}

Split torchtitan_split(const ModelSpec& model, const PartitionOptions& options,
                       const ScheduleInfo* schedule) {
  const LayerNames layers = titan_names(model, "output");
  if (!options.split_points.empty()) return split_before(layers, options.split_points, true);
  const EndWeights weights = weights_of(options);
  const int num_stages =
      options.layers_per_stage > 0
          ? rigid_num_stages(stages_need(schedule), required_ranks(options), layers.num_decoders,
                             options.layers_per_stage, weights.first, weights.last)
          : counted_stages(options, schedule, layers.num_decoders);
  return weighted_split(layers, num_stages, weights);
}

Split torchtitan_current_split(const ModelSpec& model, const PartitionOptions& options,
                               const ScheduleInfo* schedule) {
  const LayerNames layers = titan_names(model, "lm_head");
  if (!options.modules.empty()) return split_as_listed(layers, options.modules);
  const EndWeights weights = weights_of(options);
  return weighted_split(
      layers, counted_stages(options, schedule, layers.num_decoders, weights.first + weights.last),
      weights);
}

}  // namespace sluice::detail
