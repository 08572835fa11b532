#include "report/peer_layout.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "plan/partition/convention.h"
#include "plan/partition/layout_text.h"
#include "plan/peers/automodel.h"
#include "report/torch_snippet.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using detail::LayerNames;

// The split in the names of one trainer, and a schedule that the trainer runs.
struct Written {
  const PeerLayout& of;
  std::string schedule;  // with a CSV: any schedule that places the stages like the CSV
  ModuleNames modules = {};
  std::vector<std::string> cuts = {};
  std::string layout = {};

  int num_microbatches() const { return of.schedule ? of.schedule->num_microbatches : 0; }
};

struct Peer {
  const char* name;
  std::set<ScheduleKind> schedules;  // that run by name
  bool reads_csv = false;
  bool any_placement = false;  // not only "loop" and "v"
  void (*split)(Written&) = nullptr;
  std::string (*config)(const Written&) = nullptr;
};

[[noreturn]] void refuse_to_emit(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "--emit", .remedy = remedy});
}

std::string quoted(const std::string& text) { return Json(text).dump(); }

ModuleNames modules_by(const PeerLayout& of, const LayerNames& layers) {
  ModuleNames modules;
  for (const StageContent& stage : of.partition.stages) {
    std::vector<std::string>& names = modules.emplace_back();
    for (const int i : stage.layers)
      names.insert(names.end(), layers.names[i].begin(), layers.names[i].end());
    names.insert(names.end(), layers.stateless.begin(), layers.stateless.end());
  }
  return modules;
}

void split_for_torch(Written& to) { to.modules = modules_by(to.of, detail::hf_names(to.of.model)); }

void split_for_torchtitan(Written& to) {
  to.modules = modules_by(to.of, detail::titan_names(to.of.model, "lm_head"));
}

void split_for_automodel(Written& to) {
  validate_hf_model_for_pipeline_support(to.of.model);
  to.modules = modules_by(to.of, detail::automodel_names(to.of.model, {}));
}

void split_for_megatron(Written& to) {
  to.layout = detail::shorten_layout(detail::layout_of(to.of.model, to.of.partition));
}

void split_for_neuronx(Written& to) {
  const auto [first, last] = to.of.model.block_range();
  const std::vector<StageContent>& stages = to.of.partition.stages;
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    const int before = stages[s].layers.back();
    if (before < first || before + 1 >= last) {
      refuse_to_emit(
          formatted("stage {} has no decoder layer, but NeuronX cuts only between decoder "
                    "layers",
                    before < first ? s : s + 1),
          "give every stage a decoder layer");
    }
    to.cuts.push_back(to.of.model.layers[before].name);
  }
}

// One module list a line, such as `    ["a", "b"],`.
std::string list_lines(const ModuleNames& modules, const std::string& before,
                       const std::string& after) {
  std::string text;
  for (const std::vector<std::string>& stage : modules) {
    std::vector<std::string> names;
    for (const std::string& name : stage) names.push_back(quoted(name));
    text += formatted("{}[{}]{}\n", before, join(names, ", "), after);
  }
  return text;
}

std::string if_above(int least, int value, const char* before, const char* after) {
  return value > least ? before + std::to_string(value) + after : std::string();
}

std::string torchtitan_config(const Written& written) {
  const PeerLayout& of = written.of;
  std::string text = "# torchtitan: arguments of ParallelismConfig\n";
  text += formatted("pipeline_parallel_degree={},\n", of.partition.num_ranks());
  text += formatted("pipeline_parallel_schedule={},\n", quoted(written.schedule));
  if (!of.csv_file.empty())
    text += formatted("pipeline_parallel_schedule_csv={},\n", quoted(of.csv_file));
  text += if_above(0, written.num_microbatches(), "num_pp_microbatches=", ",\n");
  text += if_above(1, of.tensor_parallel, "tensor_parallel_degree=", ",\n");
  return text + "module_fqns_per_model_part=[\n" + list_lines(written.modules, "    ", ",") +
         "],\n";
}

std::string automodel_config(const Written& written) {
  const PeerLayout& of = written.of;
  std::string text = "# AutoModel: keys of a recipe\ndistributed:\n";
  text += formatted("  pp_size: {}\n", of.partition.num_ranks());
  text += if_above(1, of.tensor_parallel, "  tp_size: ", "\n");
  text += formatted("  pipeline:\n    pp_schedule: {}\n", quoted(to_lower(written.schedule)));
  if (!of.csv_file.empty()) text += formatted("    pp_schedule_csv: {}\n", quoted(of.csv_file));
  text += if_above(0, of.microbatch_size, "    pp_microbatch_size: ", "\n");
  text += "    module_fqns_per_model_part:\n" + list_lines(written.modules, "      - ", "");
  if (of.microbatch_size > 0 && written.num_microbatches() > 0) {
    text += formatted("step_scheduler:\n  local_batch_size: {}\n",
                      of.microbatch_size * written.num_microbatches());
  }
  return text;
}

// Returns "" unless the numbers of the first and the last rank describe the whole split.
std::string megatron_counts(const PeerLayout& of) {
  const std::vector<StageContent>& stages = of.partition.stages;
  if (of.partition.stages_per_rank() != 1 || stages.size() < 3) return {};
  for (std::size_t s = 2; s + 1 < stages.size(); ++s)
    if (stages[s].num_layers != stages[1].num_layers) return {};
  if (stages[1].layers.size() != static_cast<std::size_t>(stages[1].num_layers)) return {};
  return formatted(
      "# or, without a layout: --decoder-first-pipeline-num-layers {} "
      "--decoder-last-pipeline-num-layers {}\n",
      stages.front().num_layers, stages.back().num_layers);
}

std::string megatron_config(const Written& written) {
  const PeerLayout& of = written.of;
  std::string text = "# Megatron-LM: arguments; Megatron-Bridge: cfg.model.* of these names\n";
  text += formatted("--pipeline-model-parallel-size {}\n", of.partition.num_ranks());
  text += formatted("--pipeline-model-parallel-layout {}\n", quoted(written.layout));
  text += if_above(1, of.tensor_parallel, "--tensor-model-parallel-size ", "\n");
  if (of.microbatch_size > 0 && written.num_microbatches() > 0) {
    text += formatted("--micro-batch-size {}\n--global-batch-size {}\n", of.microbatch_size,
                      of.microbatch_size * written.num_microbatches() * of.data_parallel);
  }
  return text + megatron_counts(of);
}

std::string neuronx_config(const Written& written) {
  const PeerLayout& of = written.of;
  std::string text = "# NeuronX Distributed: arguments of neuronx_distributed_config\n";
  text += formatted("pipeline_parallel_size={},\n", of.partition.num_ranks());
  text += if_above(1, of.tensor_parallel, "tensor_parallel_size=", ",\n");
  text += "pipeline_config={\n";
  text += if_above(0, written.num_microbatches(), "    \"num_microbatches\": ", ",\n");
  text += if_above(1, of.partition.stages_per_rank(), "    \"virtual_pipeline_size\": ", ",\n");
  std::vector<std::string> cuts;
  for (const std::string& cut : written.cuts) cuts.push_back(quoted(cut));
  return text + formatted("    \"pipeline_cuts\": [{}],\n}},\n", join(cuts, ", "));
}

std::string torch_config(const Written& written) {
  return torch_snippet({.modules = written.modules,
                        .stage_to_rank = written.of.partition.stage_map.ranks(),
                        .schedule = written.schedule,
                        .csv_file = written.of.csv_file,
                        .num_microbatches = written.num_microbatches()});
}

const std::vector<Peer>& peers() {
  static const std::set<ScheduleKind> all = [] {
    std::set<ScheduleKind> kinds;
    for (const ScheduleInfo& info : schedule_table()) kinds.insert(info.kind);
    return kinds;
  }();
  static const std::set<ScheduleKind> fixed = {ScheduleKind::k1F1B, ScheduleKind::kInterleaved1F1B};
  static const std::vector<Peer> table = {
      {"torchtitan", all, true, false, split_for_torchtitan, torchtitan_config},
      {"automodel", all, true, false, split_for_automodel, automodel_config},
      {"megatron", fixed, false, false, split_for_megatron, megatron_config},
      {"neuronx", fixed, false, false, split_for_neuronx, neuronx_config},
      {"torch", all, true, true, split_for_torch, torch_config}};
  return table;
}

const Peer& find_peer(const std::string& name) {
  for (const Peer& peer : peers())
    if (name == peer.name) return peer;
  refuse_to_emit("unknown trainer '" + name + "'", suggest_name(name, peer_trainers()));
}

// Returns the kind that makes exactly these rows. The name does not decide, because a file's
// schedule may have any name.
std::optional<ScheduleKind> kind_of_rows(const Schedule& schedule) {
  const auto without_idle = [](std::vector<std::vector<Action>> rows) {
    for (std::vector<Action>& row : rows)
      std::erase_if(row, [](const Action& each) { return each.kind == ActionKind::kIdle; });
    return rows;
  };
  for (const ScheduleInfo& info : schedule_table()) {
    if (info.name != schedule.name) continue;
    try {
      const Schedule made =
          make_schedule(info.kind, {.num_ranks = schedule.num_ranks(),
                                    .stages_per_rank = schedule.stage_map.stages_per_rank(),
                                    .num_microbatches = schedule.num_microbatches});
      if (made.stage_map == schedule.stage_map &&
          without_idle(made.rows) == without_idle(schedule.rows))
        return info.kind;
    } catch (const Error& error) {
      return std::nullopt;  // the named kind cannot have these stages
    }
  }
  return std::nullopt;
}

// Returns a kind that places the stages like `map`. A CSV gives the order.
ScheduleKind kind_of_placement(const StageMap& map) {
  if (map.is(Placement::kLoop))
    return map.stages_per_rank() == 1 ? ScheduleKind::k1F1B : ScheduleKind::kInterleaved1F1B;
  return ScheduleKind::kZBVZeroBubble;
}

bool fits(const ScheduleInfo& schedule, const StageMap& map) {
  return schedule.single_stage ? map.stages_per_rank() == 1 : map.is(schedule.placement);
}

std::string names_text(const std::set<ScheduleKind>& kinds) {
  std::vector<std::string> names;
  for (const ScheduleKind kind : kinds) names.push_back(find_schedule(kind).name);
  return join(names, ", ");
}

std::string schedule_for(const Peer& peer, const PeerLayout& layout) {
  const StageMap& map = layout.partition.stage_map;
  const bool is_loop = map.is(Placement::kLoop), is_v = map.is(Placement::kV);
  if (!peer.any_placement && !is_loop && !(is_v && peer.reads_csv)) {
    refuse_to_emit(
        formatted("{} cannot place stages on ranks {}", peer.name, Json(map.ranks()).dump()),
        "use --stage-to-rank loop, or --emit torch");
  }
  std::optional<ScheduleKind> kind;
  if (layout.schedule)
    kind = kind_of_rows(*layout.schedule);
  else if (layout.schedule_name)
    kind = find_schedule(*layout.schedule_name).kind;
  else if (is_loop)
    kind = kind_of_placement(map);
  if (!kind && !layout.schedule)
    refuse_to_emit(
        formatted("there is no default schedule for stages on ranks {}", Json(map.ranks()).dump()),
        "give --schedule");
  if (kind && !layout.schedule && !fits(find_schedule(*kind), map)) {
    refuse_to_emit(formatted("{} does not run {} on ranks {}", find_schedule(*kind).name,
                             counted(map.num_stages(), "stage"), Json(map.ranks()).dump()),
                   is_loop || is_v ? "use --schedule " + find_schedule(kind_of_placement(map)).name
                                   : "use --stage-to-rank loop");
  }
  const bool runs = kind && peer.schedules.contains(*kind);
  if (!runs && !peer.reads_csv) {
    refuse_to_emit(formatted("{} cannot run the schedule {}", peer.name,
                             kind ? find_schedule(*kind).name : layout.schedule->name),
                   "use one of: " + names_text(peer.schedules));
  }
  if (!layout.csv_file.empty() && layout.schedule)
    return find_schedule(kind_of_placement(map)).name;
  if (!runs) {
    refuse_to_emit(formatted("{} has no name for the order '{}'", peer.name, layout.schedule->name),
                   "give --out FILE.csv too, so that the settings can name this file");
  }
  return find_schedule(*kind).name;
}

Written written_for(const Peer& peer, const PeerLayout& layout) {
  Written written{.of = layout, .schedule = schedule_for(peer, layout)};
  peer.split(written);
  return written;
}

}  // namespace

const std::vector<std::string>& peer_trainers() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Peer& peer : peers()) list.emplace_back(peer.name);
    return list;
  }();
  return names;
}

bool runs_by_name(const std::string& trainer, const Schedule& schedule) {
  const std::optional<ScheduleKind> kind = kind_of_rows(schedule);
  return kind && find_peer(trainer).schedules.contains(*kind);
}

bool reads_schedule_csv(const std::string& trainer) { return find_peer(trainer).reads_csv; }

std::string peer_layout_text(const std::string& trainer, const PeerLayout& layout) {
  const Peer& peer = find_peer(trainer);
  return peer.config(written_for(peer, layout));
}

Json peer_layout_json(const std::string& trainer, const PeerLayout& layout) {
  const Peer& peer = find_peer(trainer);
  const Written written = written_for(peer, layout);
  Json object;
  object["trainer"] = trainer;
  object["schedule"] = written.schedule;
  if (!written.modules.empty()) object["module_fqns_per_model_part"] = written.modules;
  if (!written.layout.empty()) object["pipeline_model_parallel_layout"] = written.layout;
  if (trainer == "neuronx") object["pipeline_cuts"] = written.cuts;
  if (layout.schedule && peer.reads_csv) object["schedule_csv"] = to_csv(layout.schedule->rows);
  object["config"] = peer.config(written);
  return object;
}

}  // namespace sluice
