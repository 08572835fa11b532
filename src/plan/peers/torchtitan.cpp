#include "base/format.h"
#include "plan/partition/torchtitan_rules.h"
#include "sluice/error.h"
#include "sluice/parts/peers.h"

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

}  // namespace sluice
