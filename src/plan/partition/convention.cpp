#include "plan/partition/convention.h"

#include <algorithm>

#include "base/format.h"
#include "plan/partition/shares.h"
#include "sluice/parts/peers.h"

namespace sluice::detail {

int LayerNames::decoders_before(int position) const {
  return std::clamp(position - first_decoder, 0, num_decoders);
}

LayerNames hf_names(const ModelSpec& model) {
  LayerNames out;
  out.num_layers = static_cast<int>(model.layers.size());
  out.first_decoder = model.block_range().first;
  out.num_decoders = model.num_blocks();
  for (const LayerInfo& layer : model.layers) out.names.push_back(layer.module_names());
  return out;
}

LayerNames titan_names(const ModelSpec& model, const std::string& head) {
  LayerNames out = hf_names(model);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    switch (model.layers[i].role) {
      case LayerRole::kEmbedding:
        out.names[i] = {"tok_embeddings"};
        break;
      case LayerRole::kNorm:
        out.names[i] = {"norm"};
        break;
      case LayerRole::kHead:
        out.names[i] = {head};
        break;
      case LayerRole::kBlock:
      case LayerRole::kOther:
        break;
    }
  }
  for (int k = 0; k < out.num_decoders; ++k)
    out.names[out.position(k)] = {"layers." + std::to_string(k)};
  return out;
}

Split split_at(const LayerNames& layers, std::vector<int> starts) {
  Split split;
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const int stop = s + 1 < starts.size() ? starts[s + 1] : layers.num_layers;
    std::vector<std::string>& modules = split.modules.emplace_back();
    for (int i = starts[s]; i < stop; ++i) {
      modules.insert(modules.end(), layers.names[i].begin(), layers.names[i].end());
    }
    if (s > 0) split.split_points.push_back(layers.names[starts[s]].front());
  }
  split.starts = std::move(starts);
  return split;
}

Split split_by_shares(const LayerNames& layers, const std::vector<int>& shares) {
  std::vector<int> starts;
  for (const int decoder : first_layers(shares)) starts.push_back(layers.position(decoder));
  starts.front() = 0;
  return split_at(layers, std::move(starts));
}

int required_ranks(const PartitionOptions& options) {
  if (options.num_ranks == 0) {
    refuse("the number of ranks is not given", "give it, or the number of stages");
  }
  return options.num_ranks;
}

int counted_stages(const PartitionOptions& options, const ScheduleInfo* schedule, int num_layers,
                   int weight) {
  if (options.num_stages > 0) return options.num_stages;
  if (options.layers_per_stage > 0) {
    return virtual_stages(num_layers + weight, options.layers_per_stage, required_ranks(options),
                          stages_need(schedule), options.rounding,
                          weight > 0 ? "effective layer" : "layer")
        .num_stages;
  }
  if (options.stages_per_rank == 0 && !options.stage_to_rank.empty()) {
    return static_cast<int>(options.stage_to_rank.size());
  }
  const int per_rank =
      options.stages_per_rank > 0 ? options.stages_per_rank : natural_stages_per_rank(schedule);
  const std::int64_t stages = std::int64_t{required_ranks(options)} * per_rank;
  if (stages > kMaxCount) {
    refuse(formatted("{} stages are more than {}", stages, kMaxCount), "use fewer ranks");
  }
  return static_cast<int>(stages);
}

namespace {

LayerNames plain_names(const ModelSpec& model, const PartitionOptions& /*options*/) {
  return hf_names(model);
}
LayerNames output_names(const ModelSpec& model, const PartitionOptions& /*options*/) {
  return titan_names(model, "output");
}
LayerNames lm_head_names(const ModelSpec& model, const PartitionOptions& /*options*/) {
  return titan_names(model, "lm_head");
}

}  // namespace

const std::vector<ConventionRules>& conventions() {
  static const std::vector<ConventionRules> table = {
      {.kind = Convention::kSluice,
       .name = "sluice",
       .split_points = true,
       .cuts = true,
       .modules = true,
       .layers_per_stage = true,
       .rounding = true,
       .weights = true,
       .remainder = true,
       .layer_each = true,
       .names = plain_names,
       .split = sluice_split},
      {.kind = Convention::kTorchtitan,
       .name = "torchtitan",
       .split_points = true,
       .layers_per_stage = true,
       .weights = true,
       .names_win = true,
       .default_weight = 1,
       .names = output_names,
       .split = torchtitan_split},
      {.kind = Convention::kTorchtitan2024,
       .name = "torchtitan-2024",
       .split_points = true,
       .names_win = true,
       .names = output_names,
       .split = torchtitan_2024_split},
      {.kind = Convention::kTorchtitanCurrent,
       .name = "torchtitan-current",
       .modules = true,
       .layers_per_stage = true,
       .weights = true,
       .names_win = true,
       .default_weight = 1,
       .names = lm_head_names,
       .split = torchtitan_current_split},
      {.kind = Convention::kAutomodel,
       .name = "automodel",
       .modules = true,
       .layers_per_stage = true,
       .rounding = true,
       .ends = true,
       .layer_each = true,
       .names = automodel_names,
       .split = automodel_split},
      {.kind = Convention::kNeuronx,
       .name = "neuronx",
       .cuts = true,
       .names = plain_names,
       .split = neuronx_split},
  };
  return table;
}

EndWeights end_weights(const ConventionRules& convention, const PartitionOptions& options) {
  return {options.first_stage_weight.value_or(convention.default_weight),
          options.last_stage_weight.value_or(convention.default_weight)};
}

}  // namespace sluice::detail
