#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "archive/graph_model.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "base/option_names.h"
#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "emit_option.h"
#include "plan/partition/cutting.h"
#include "plan/partition/layout_text.h"
#include "plan/predict/layer_costs.h"
#include "plan/schedules/builders.h"
#include "report/partition_output.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr int kMaxSize = 1 << 30;

struct SplitArguments {
  std::optional<std::string> model, schedule, round, remainder, split_points, cuts, modules;
  std::optional<std::string> extra_modules, prefix, lm_head, stage_to_rank, layout, emit,
      layer_costs, cluster;
  std::optional<int> layers, pp, stages, layers_per_stage, input_weight, output_weight;
  std::optional<int> microbatch_size, seq_len;
  std::string convention = "sluice";
  bool no_embeddings = false, no_lm_head = false, no_rotary = false, multimodal = false;
  bool json = false;
};

[[noreturn]] void refuse_split(const std::string& what, const std::string& remedy = {}) {
  throw Error(ErrorKind::kUsage, {.what = what, .remedy = remedy});
}

template <typename Value>
Value word_of(const char* option, const std::string& word,
              const std::vector<std::pair<std::string, Value>>& words) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    names.push_back(name);
  }
  refuse_split(std::string("unknown value '") + word + "' of " + option, suggest_name(word, names));
}

std::vector<std::string> list_of(const char* option, const std::optional<std::string>& text) {
  std::vector<std::string> names;
  if (!text) return names;
  for (const std::string& part : split(*text, ',')) names.emplace_back(trim(part));
  if (names.empty() || std::count(names.begin(), names.end(), "") > 0) {
    refuse_split(std::string(option) + " has an empty name in '" + *text + "'",
                 "separate names by single commas");
  }
  return names;
}

ModuleNames modules_of(const std::optional<std::string>& text) {
  return text ? detail::parse_module_lists(*text, "--modules") : ModuleNames();
}

ModelSpec graph_of(const SplitArguments& arguments) {
  detail::GraphOptions options;
  options.needs_loss = false;
  const auto add = [&](std::vector<std::string> names) {
    for (std::string& name : names) options.cuts.modules.push_back(std::move(name));
  };
  add(list_of("--split-points", arguments.split_points));
  add(list_of("--cuts", arguments.cuts));
  for (std::vector<std::string>& stage : modules_of(arguments.modules)) add(std::move(stage));
  auto graph = detail::graph_of_model(detail::read_exported_graph(*arguments.model), options);
  MicrobatchShape shape = detail::exported_shape(*graph);
  shape.rows = arguments.microbatch_size.value_or(static_cast<int>(shape.rows));
  shape.length = arguments.seq_len.value_or(static_cast<int>(shape.length));
  return detail::describe_graph(std::move(graph), options, shape);
}

ModelSpec model_of(const SplitArguments& arguments) {
  if (arguments.model.has_value() == arguments.layers.has_value()) {
    refuse_split(arguments.model ? "--model and --layers exclude each other" : "no model is given",
                 "give --model DIR_OR_CONFIG_JSON or --layers N");
  }
  if (!arguments.model) return model_spec_of_blocks(*arguments.layers);
  return detail::is_graph_path(*arguments.model) ? graph_of(arguments)
                                                 : read_language_model_spec(*arguments.model);
}

PartitionOptions options_of(const SplitArguments& arguments) {
  PartitionOptions options;
  options.convention = arguments.convention;
  // 0 means that --pp is not given.
  options.num_ranks = arguments.pp.value_or(0);
  options.schedule.reset();
  if (arguments.schedule) {
    const ScheduleInfo& schedule = find_schedule(*arguments.schedule);
    options.schedule = schedule.kind;
    if (!arguments.pp && !schedule.single_stage && !arguments.stage_to_rank) {
      refuse_split(schedule.name + " needs the number of ranks", "give --pp");
    }
  }
  options.num_stages = arguments.stages.value_or(0);
  options.layers_per_stage = arguments.layers_per_stage.value_or(0);
  if (arguments.round) {
    options.rounding = word_of<Rounding>("--round", *arguments.round,
                                         {{"up", Rounding::kUp}, {"down", Rounding::kDown}});
  }
  options.first_stage_weight = arguments.input_weight;
  options.last_stage_weight = arguments.output_weight;
  if (arguments.remainder) {
    options.remainder = word_of<Remainder>(
        "--remainder", *arguments.remainder,
        {{"first", Remainder::kFirst}, {"last", Remainder::kLast}, {"middle", Remainder::kMiddle}});
  }
  options.split_points = list_of("--split-points", arguments.split_points);
  options.cuts = list_of("--cuts", arguments.cuts);
  options.modules = modules_of(arguments.modules);
  options.embeddings = !arguments.no_embeddings;
  options.lm_head = !arguments.no_lm_head;
  options.rotary = !arguments.no_rotary;
  options.multimodal = arguments.multimodal;
  options.extra_modules = list_of("--extra-modules", arguments.extra_modules);
  options.prefix = arguments.prefix;
  options.lm_head_name = arguments.lm_head;
  if (arguments.stage_to_rank) {
    const std::string word = to_lower(*arguments.stage_to_rank);
    if (word == "loop" || word == "v") {
      options.placement = word == "v" ? Placement::kV : Placement::kLoop;
    } else {
      options.stage_to_rank = parse_stage_to_rank(word, options.num_ranks, options.num_stages);
    }
  }
  return options;
}

std::vector<StageShape> shapes_of(const SplitArguments& arguments, const ModelSpec& model,
                                  const Partition& partition) {
  if (!arguments.microbatch_size && !arguments.seq_len) return {};
  if (!arguments.microbatch_size || !arguments.seq_len) {
    refuse_split("shapes need both --microbatch-size and --seq-len", "give both");
  }
  if (!arguments.model) {
    refuse_split("shapes need a model's sizes, which --layers does not give", "give --model");
  }
  return stage_shapes(model, partition, *arguments.microbatch_size, *arguments.seq_len);
}

// Notes that a schedule with one stage per rank refuses this split. Like torchtitan, we still place
// an explicit number of stages.
std::optional<std::string> note_of(const PartitionOptions& options, const Partition& partition) {
  if (!options.schedule || partition.stages_per_rank() == 1) return std::nullopt;
  const ScheduleInfo& schedule = find_schedule(*options.schedule);
  if (!schedule.single_stage) return std::nullopt;
  return formatted(
      "{} runs exactly 1 stage a rank and refuses this split: use {} stages, or Interleaved1F1B",
      schedule.name, partition.num_ranks());
}

bool names_stages(const PartitionOptions& options) {
  return !options.split_points.empty() || !options.cuts.empty() || !options.modules.empty();
}

// With costs and without named cuts, makes the slowest rank as fast as possible.
Partition partition_of(const ModelSpec& model, const PartitionOptions& options,
                       const std::optional<LayerTimes>& times) {
  const auto flag_of = [&](std::string_view option) -> std::string {
    if (option == "layers_per_stage") return "--layers-per-stage";
    if (option == "partition_convention") return "--convention";
    if (option == "model") return model.family.empty() ? "--layers" : "--model";
    return {};
  };
  try {
    Partition partition =
        times && !names_stages(options)
            ? detail::split_by_costs(model, options, step_times(*times, /*num_microbatches=*/1))
            : make_partition(model, options);
    for (std::string& note : partition.notes) note = with_names(note, flag_of);
    if (const auto note = note_of(options, partition)) partition.notes.push_back(*note);
    return partition;
  } catch (const Error& error) {
    throw with_names(error, flag_of);
  }
}

// Seconds that each rank computes for a microbatch.
std::vector<double> rank_seconds(const LayerTimes& times, const Partition& partition) {
  std::vector<double> seconds(static_cast<std::size_t>(partition.num_ranks()));
  for (const StageContent& stage : partition.stages)
    for (const int i : stage.layers) seconds[stage.rank] += step_time(times.layers[i], 1);
  return seconds;
}

std::string seconds_text(const LayerTimes& times, const Partition& partition) {
  const std::vector<double> seconds = rank_seconds(times, partition);
  const auto slowest = std::max_element(seconds.begin(), seconds.end());
  double sum = 0;
  for (const double each : seconds) sum += each;
  return formatted("a microbatch takes the slowest rank ({}) {} ms, the mean rank {} ms\n",
                   slowest - seconds.begin(), fixed(*slowest * 1e3, 3),
                   fixed(sum * 1e3 / static_cast<double>(seconds.size()), 3));
}

std::string split_text(const ModelSpec& model, const Partition& partition,
                       const std::vector<StageShape>& shapes) {
  const int width = terminal_width(STDOUT_FILENO);
  std::string text = counted(model.num_blocks(), "layer") + ", " +
                     counted(partition.num_stages(), "stage") + ", " +
                     counted(partition.num_ranks(), "rank") + " (" + partition.convention + ")\n" +
                     partition_text(model, partition, shapes, width);
  for (const std::string& note : partition.notes) text += wrapped("note: " + note, width);
  return text;
}

void set_layout(const std::string& layout, const ModelSpec& model, PartitionOptions& options) {
  if (options.convention != ConventionName(Convention::kSluice)) {
    refuse_split("--layout and --convention exclude each other", "leave --convention out");
  }
  options.modules = at_layout([&] { return detail::modules_of_layout(model, layout); });
}

int run_split(const SplitArguments& arguments) {
  PartitionOptions options = options_of(arguments);
  if (arguments.emit) require_trainer(*arguments.emit);
  ModelSpec model = model_of(arguments);
  if (arguments.layout) set_layout(*arguments.layout, model, options);
  std::optional<LayerTimes> times;
  std::vector<std::string> notes;
  if (arguments.layer_costs) {
    CostedModel costed =
        with_layer_costs(read_layer_costs(*arguments.layer_costs), std::move(model),
                         {arguments.microbatch_size.value_or(1), arguments.seq_len.value_or(1)},
                         OptimizerKind::kAdamW);
    model = std::move(costed.model);
    times = std::move(costed.times);
    notes = std::move(costed.notes);
  }
  Partition partition = partition_of(model, options, times);
  partition.notes.insert(partition.notes.end(), notes.begin(), notes.end());
  const std::vector<StageShape> shapes = shapes_of(arguments, model, partition);
  const PeerLayout layout = {.model = model,
                             .partition = partition,
                             .schedule_name = options.schedule,
                             .microbatch_size = arguments.microbatch_size.value_or(0)};
  if (arguments.json) {
    Json object = partition_json(model, partition, shapes);
    if (times) object["rank_seconds"] = rank_seconds(*times, partition);
    if (times) object["notes"] = partition.notes;
    if (arguments.emit) object["emit"] = peer_layout_json(*arguments.emit, layout);
    print_exact(object.dump() + "\n");
  } else if (arguments.emit) {
    print_exact(peer_layout_text(*arguments.emit, layout));
  } else {
    print(split_text(model, partition, shapes) +
          (times ? seconds_text(*times, partition) : std::string()));
  }
  return 0;
}

}  // namespace

Command split_command() {
  const auto arguments = std::make_shared<SplitArguments>();
  SplitArguments& a = *arguments;
  static const std::string conventions =
      "library whose rules and names apply: " + join(partition_conventions(), ", ");
  Option convention = {"--convention", &a.convention, conventions.c_str()};
  convention.shows_default = true;
  std::vector<OptionRule> rules = layout_rules(
      {"--stages", "--layers-per-stage", "--remainder", "--split-points", "--cuts", "--modules"});
  rules.push_back(not_built("--cluster", "give --layer-costs"));
  return {
      .name = "split",
      .help = "Computes a partition: which stage has which layers.",
      .options = {{"--model", &a.model, "Hugging Face directory or config.json"},
                  {"--layers", &a.layers, "instead of --model: a number of decoder layers", 0,
                   kMaxLayers},
                  {"--pp", &a.pp, "ranks; default: one per stage", 1, detail::kMostRanks},
                  {"--schedule", &a.schedule,
                   "schedule that decides the placement and the stages per rank"},
                  {"--stages", &a.stages, "number of stages"},
                  convention,
                  {"--stage-to-rank", &a.stage_to_rank,
                   "loop, v, or the rank of each stage, such as 0,1,1,0"}},
      .groups = {{"By costs",
                  {{"--layer-costs", &a.layer_costs, kLayerCostsHelp},
                   {"--cluster", &a.cluster, kClusterHelp}}},
                 {"By counts",
                  {{"--layers-per-stage", &a.layers_per_stage, "stages = ceil(layers / K)"},
                   {"--round", &a.round, "round the stages up or down to a multiple of the ranks"},
                   {"--input-weight", &a.input_weight,
                    "number of layers that the embedding counts as", 0},
                   {"--output-weight", &a.output_weight,
                    "number of layers that norm and head count as", 0},
                   {"--remainder", &a.remainder,
                    "stages that get the extra layers: first, last or middle"}}},
                 {"By names",
                  {{"--split-points", &a.split_points, "cut before these layers: a,b"},
                   {"--cuts", &a.cuts, "cut after these layers: a,b"},
                   {"--modules", &a.modules, "names per stage: [[\"a\",\"b\"],[\"c\"]]"},
                   {"--layout", &a.layout, kLayoutHelp}}},
                 {"What the ends hold (automodel)",
                  {{"--no-embeddings", &a.no_embeddings, "no embedding"},
                   {"--no-lm-head", &a.no_lm_head, "no head"},
                   {"--no-rotary", &a.no_rotary, "no rotary embedding on the stages"},
                   {"--multimodal", &a.multimodal, "encoders on the first stage"},
                   {"--extra-modules", &a.extra_modules, "further modules on the first stage: a,b"},
                   {"--prefix", &a.prefix, "prefix of the layers' names, such as model."},
                   {"--lm-head", &a.lm_head, "name of the head, such as lm_head"}}},
                 {"Output",
                  {{"--microbatch-size", &a.microbatch_size, "for shapes: sequences per microbatch",
                    1, kMaxSize},
                   {"--seq-len", &a.seq_len, "for shapes: tokens per sequence", 1, kMaxSize},
                   {"--emit", &a.emit, emit_help()},
                   {"--json", &a.json, "print one JSON object"}}}},
      .rules = std::move(rules),
      .run = [arguments] { return at_command("split", [&] { return run_split(*arguments); }); }};
}

}  // namespace sluice
