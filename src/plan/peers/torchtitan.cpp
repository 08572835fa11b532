// torchtitan's functions, in its own vocabulary. The rules: plan/partition/torchtitan_rules.h.
#include "base/format.h"
#include "plan/partition/torchtitan_rules.h"
#include "plan/peers/peers.h"
#include "sluice/error.h"

namespace sluice {

using detail::refuse;

std::vector<std::string> generate_split_points(std::string_view schedule, int pp_degree,
                                               int num_layers, std::optional<int> layers_per_stage,
                                               int input_weight, int output_weight) {
  const ScheduleInfo& info = find_schedule(schedule);
  detail::require_count("the number of ranks", pp_degree, 1);
  const int num_stages =
      layers_per_stage ? detail::rigid_num_stages(detail::stages_need(&info), pp_degree, num_layers,
                                                  *layers_per_stage, input_weight, output_weight)
                       : pp_degree * detail::natural_stages_per_rank(&info);
  return detail::titan_split_points(detail::first_layers(detail::weighted_shares(
      num_layers, num_stages, input_weight, output_weight, Remainder::kFirst)));
}

std::vector<std::string> generate_split_points_2024(std::string_view schedule, int pp_degree,
                                                    int num_layers) {
  detail::require_count("the number of ranks", pp_degree, 1);
  const int num_stages = pp_degree * detail::natural_stages_per_rank(&find_schedule(schedule));
  return detail::titan_split_points(
      detail::first_layers(detail::shares_2024(num_layers, num_stages)));
}

int get_pipeline_metadata(std::string_view schedule, int pp_degree, int num_layers,
                          std::optional<int> layers_per_stage, int first_stage_less_layers,
                          int last_stage_less_layers) {
  const ScheduleInfo& info = find_schedule(schedule);
  detail::require_count("the weight of the first stage", first_stage_less_layers, 0);
  detail::require_count("the weight of the last stage", last_stage_less_layers, 0);
  detail::require_count("the number of layers", num_layers, 0);
  const int weight = first_stage_less_layers + last_stage_less_layers;
  if (!layers_per_stage) {
    return calculate_virtual_stages(num_layers, {}, pp_degree, info.single_stage).num_stages;
  }
  return detail::virtual_stages(num_layers + weight, *layers_per_stage, pp_degree,
                                detail::stages_need(&info), Rounding::kNone,
                                weight > 0 ? "effective layer" : "layer")
      .num_stages;
}

ModuleNames generate_llm_fqn_per_model_part(int num_stages, int num_layers, int input_weight,
                                            int output_weight, const std::string& head) {
  return detail::titan_modules(
      detail::first_layers(detail::weighted_shares(num_layers, num_stages, input_weight,
                                                   output_weight, Remainder::kFirst)),
      num_layers, head);
}

std::vector<int> stage_ids_this_rank(int pp_rank, int pp_size, int num_stages,
                                     std::string_view style) {
  detail::require_count("the number of ranks", pp_size, 1);
  detail::require_count("the number of stages", num_stages, 1);
  if (pp_rank < 0 || pp_rank >= pp_size) {
    refuse(formatted("rank {} is not one of {}", pp_rank, counted(pp_size, "rank")),
           "count ranks from 0");
  }
  const bool v = style == "v";
  if (!v && style != "loop") {
    refuse("unknown placement '" + std::string(style) + "'", "one of: loop, v");
  }
  if (v && num_stages % pp_size == 0 && num_stages / pp_size != 2) {
    refuse("placement v takes 2 stages a rank, got " + std::to_string(num_stages / pp_size),
           formatted("use {} stages", 2 * pp_size));
  }
  return make_stage_map(v ? Placement::kV : Placement::kLoop, pp_size, num_stages)
      .stages_of(pp_rank);
}

std::vector<std::vector<ManualStage>> pipeline_llama_manual_split(
    int num_layers, int pp_size, std::string_view schedule,
    const std::vector<std::string>& split_points, std::optional<int> layers_per_stage) {
  PartitionOptions options;
  options.convention = Convention::kTorchtitan;
  options.num_ranks = pp_size;
  options.schedule = schedule;
  options.split_points = split_points;
  if (split_points.empty()) {
    if (layers_per_stage) detail::require_count("`layers_per_stage`", *layers_per_stage, 1);
    options.layers_per_stage = layers_per_stage.value_or(0);
  }
  detail::require_count("the number of ranks", pp_size, 1);
  const Partition partition = make_partition(model_spec_of_blocks(num_layers), options);
  std::vector<std::vector<ManualStage>> ranks(static_cast<std::size_t>(pp_size));
  for (const StageContent& stage : partition.stages) {
    ranks[stage.rank].push_back({stage.stage, partition.num_stages(), stage.modules});
  }
  return ranks;
}

}  // namespace sluice
