#include "report/search_output.h"

#include "base/text.h"
#include "plan/passes/passes.h"
#include "report/program_output.h"

namespace sluice {
namespace {

Json answer_json(const ScheduleAnswer& answer) {
  Json object;
  object["name"] = answer.schedule.name;
  object["stage_to_rank"] = answer.schedule.stage_map.ranks();
  if (answer.partition) {
    Json& layers = object["layers_per_stage"] = Json::array();
    for (const StageContent& stage : answer.partition->stages) layers.push_back(stage.num_layers);
  }
  object["ok"] = answer.refusal.empty();
  object["reason"] = answer.refusal;
  if (answer.report.ok()) {
    object.update(simulation_json(answer.simulation));
    object["peak_bytes_per_rank"] = answer.simulation.per_rank(&RankTimeline::peak_bytes);
  }
  return object;
}

std::string placement_name(const StageMap& map) {
  if (map.is(Placement::kLoop)) return "loop";
  return map.is(Placement::kV) ? "v" : "";
}

// Returns the torchtitan schedule that places stages as `map` does, or "".
std::string torchtitan_name(const StageMap& map) {
  if (map.is(Placement::kLoop)) return map.stages_per_rank() == 1 ? "1F1B" : "Interleaved1F1B";
  return map.is(Placement::kV) && map.stages_per_rank() == 2 ? "ZBVZeroBubble" : "";
}

std::string placement_text(const StageMap& map, int width) {
  const std::string placement = placement_name(map), name = torchtitan_name(map);
  if (placement.empty()) return {};
  std::string text = "placement: " + placement;
  if (!name.empty()) {
    text += "; for torchtitan: --parallelism.pipeline_parallel_schedule " + name +
            " --parallelism.pipeline_parallel_schedule_csv FILE, the name for its placement";
  }
  return wrapped(text, width);
}

}  // namespace

Json search_json(const SearchResult& result) {
  Json object;
  object["better"] = result.is_better;
  object["best_named"] =
      result.best_named ? Json(result.named[*result.best_named].schedule.name) : Json();
  object["max_memory"] = result.max_bytes;
  if (!result.notes.empty()) object["notes"] = result.notes;
  if (result.found) {
    object["found"] = answer_json(*result.found);
    const StageMap& map = result.found->schedule.stage_map;
    object["found"]["placement"] = placement_name(map);
    object["found"]["torchtitan_schedule"] = torchtitan_name(map);
    object["found"]["check"] = verify_json(result.found->report);
    object["found"].update(
        rows_json(to_program(result.found->schedule), result.found->schedule.rows));
  } else {
    object["found"] = Json();
  }
  Json& named = object["named"] = Json::array();
  for (const ScheduleAnswer& each : result.named) named.push_back(answer_json(each));
  return object;
}

std::string search_text(const SearchResult& result, const GridOptions& options) {
  TextTable table({{"schedule"},
                   {"stages a rank", Align::kRight},
                   {"makespan", Align::kRight},
                   {"bubble", Align::kRight},
                   {"peak", Align::kRight},
                   {""}});
  const auto add = [&](const ScheduleAnswer& each) {
    const bool has_bytes = peak_of(each) > 0;
    table.add_row({each.schedule.name, std::to_string(each.schedule.stage_map.stages_per_rank()),
                   each.report.ok() ? shortest(each.simulation.makespan) : "",
                   each.report.ok() ? fixed(100.0 * each.simulation.bubble_fraction, 1) + "%" : "",
                   has_bytes ? human_bytes(static_cast<std::int64_t>(peak_of(each))) : "",
                   each.refusal});
  };
  for (const ScheduleAnswer& each : result.named) add(each);
  if (result.found) add(*result.found);
  std::string text;
  if (!result.found) return table.to_string("  ", options.width);
  const double makespan = result.found->simulation.makespan;
  if (!result.best_named) {
    text = "found: " + shortest(makespan) + "; no named schedule can be taken\n";
  } else if (result.is_better) {
    const ScheduleAnswer& best = result.named[*result.best_named];
    text = "found: " + shortest(makespan) + ", " +
           comparison_text(makespan, best.simulation.makespan) + " " + best.schedule.name +
           ", the best of the named schedules\n";
  } else {
    const ScheduleAnswer& best = result.named[*result.best_named];
    text = "none is better than " + best.schedule.name + ": " + shortest(best.simulation.makespan) +
           "\n";
  }
  text += placement_text(result.found->schedule.stage_map, options.width);
  text += table.to_string("  ", options.width);
  text += draw_grid(result.found->simulation, options);
  text += verify_text(result.found->report, "instruction");
  if (result.found->partition) {
    text += "decoder layers per stage:";
    for (const StageContent& stage : result.found->partition->stages)
      text += " " + std::to_string(stage.num_layers);
    text += "\n";
  }
  for (const std::string& note : result.notes) text += wrapped("note: " + note, options.width);
  return text;
}

}  // namespace sluice
