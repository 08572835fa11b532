#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "config/run_config.h"
#include "emit_option.h"
#include "number_option.h"
#include "output_file.h"
#include "plan/partition/layout_text.h"
#include "report/candidates_output.h"
#include "report/picture.h"
#include "report/plan_output.h"
#include "warned_plan.h"

namespace sluice {
namespace {

struct PlanArguments {
  std::string file;
  bool json = false, compare = false, critical_path = false;
  std::optional<std::string> draw, layout, emit, out, layer_costs, cluster;
  std::string device_memory, flops, bandwidth;
};

RunConfig config_of(const PlanArguments& arguments, Overrides overrides) {
  if (!arguments.device_memory.empty())
    overrides.emplace_back("parallelism.device_memory", arguments.device_memory);
  if (arguments.layer_costs)
    overrides.emplace_back("parallelism.costs", Json(*arguments.layer_costs).dump());
  RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  config.plans_only = true;
  if (arguments.layout) {
    const ModelSpec model = model_of_config(config);
    const ModuleNames modules =
        at_layout([&] { return detail::modules_of_layout(model, *arguments.layout); });
    overrides.emplace_back("parallelism.partition_convention", "sluice");
    overrides.emplace_back("parallelism.module_fqns_per_model_part", Json(modules).dump());
    config = load_run_config(arguments.file, overrides, sluice_environment());
    config.plans_only = true;
  }
  if (arguments.flops.empty()) return config;
  config.speed = {.flops = number_above_0("--flops", arguments.flops, "400e12")};
  if (!arguments.bandwidth.empty())
    config.speed->bandwidth = number_above_0("--bandwidth", arguments.bandwidth, "50e9");
  return config;
}

void print_comparison(const Comparison& comparison, bool json) {
  json ? print_exact(comparison_json(comparison))
       : print(comparison_text(comparison, terminal_width(STDOUT_FILENO)));
  finish_stdout();
}

void draw(const PlanArguments& arguments, const Plan& plan) {
  Picture picture = picture_of(plan.schedule.name + " of " + plan.model.family, plan.program,
                               plan.simulation, plan.costs, basis_of(plan));
  picture.critical_path = arguments.critical_path;
  write_output_file(*arguments.draw, picture_as(*arguments.draw, picture, "--draw"), "--draw");
}

void print_emitted(const PlanArguments& arguments, const Plan& plan) {
  if (arguments.out) write_output_file(*arguments.out, to_csv(plan.schedule.rows), "--out");
  const PeerLayout layout = {.model = plan.model,
                             .partition = plan.partition,
                             .schedule = &plan.schedule,
                             .csv_file = arguments.out.value_or(""),
                             .microbatch_size = static_cast<int>(plan.microbatch.rows),
                             .tensor_parallel = plan.options.tensor_parallel.degree,
                             .data_parallel = plan.options.data_parallel.degree};
  if (arguments.json) {
    Json object = plan_object(plan);
    object["emit"] = peer_layout_json(*arguments.emit, layout);
    print_exact(object.dump(2) + "\n");
  } else {
    print_exact(peer_layout_text(*arguments.emit, layout));
  }
  print_warnings(plan);
}

int plan(const PlanArguments& arguments, const Overrides& overrides) {
  if (arguments.emit) require_trainer(*arguments.emit);
  if (arguments.out) check_output_file(*arguments.out, "--out");
  if (arguments.draw) {
    require_picture_ending(*arguments.draw, "--draw");
    check_output_file(*arguments.draw, "--draw");
  }
  const RunConfig config = config_of(arguments, overrides);
  if (arguments.compare) {
    if (config.model.graph.empty()) require_tokenizer(config);
    print_comparison(compare_schedules(config), arguments.json);
    return 0;
  }
  const Plan plan = make_warned_plan(config);
  if (arguments.draw) draw(arguments, plan);
  arguments.emit ? print_emitted(arguments, plan) : print_plan(plan, arguments.json);
  return 0;
}

}  // namespace

Command plan_command(const Overrides& overrides) {
  const auto a = std::make_shared<PlanArguments>();
  return {
      .name = "plan",
      .help = "Shows a run's split, schedule, predicted time, bubble and memory.",
      .options = {required(config_file(a->file)),
                  {"--json", &a->json, "as JSON"},
                  {"--compare", &a->compare,
                   "try every schedule and number of stages per rank: predicted step, bubble, peak "
                   "memory, or why it cannot run"},
                  {"--draw", &a->draw,
                   "write a picture of the step to this file: .svg, .html, or .json for Perfetto"},
                  {"--critical-path", &a->critical_path, "with --draw: outline the critical path"},
                  {"--layer-costs", &a->layer_costs, kLayerCostsHelp},
                  {"--layout", &a->layout, kLayoutHelp},
                  {"--emit", &a->emit, emit_help()},
                  {"--out", &a->out, "with --emit: write the schedule's CSV to this file"},
                  // Only for help, because sluice-run handles this option (see main.cpp).
                  {"--measure", std::monostate(),
                   "COSTS.json: time the layers on this machine, write the costs to this file, and "
                   "plan with them"}},
      .groups = {{"Machines that are not here",
                  {{"--device-memory", &a->device_memory,
                    "memory that a rank may use, such as 80GB; sets parallelism.device_memory"},
                   {"--flops", &a->flops,
                    "operations per second that a rank attains, such as 400e12; times are then in "
                    "seconds"},
                   {"--bandwidth", &a->bandwidth,
                    "with --flops: bytes per second between ranks, such as 50e9"},
                   {"--cluster", &a->cluster, kClusterHelp}}}},
      .footer = "Overrides: --section.key value or --section.key=value, see `config reference`.",
      .rules = {needs("--bandwidth", "--flops"),
                not_built("--cluster", "give --device-memory, --flops and --bandwidth"),
                needs("--out", "--emit"),
                {{"--compare", "--emit"},
                 {},
                 "--compare and --emit exclude each other",
                 "emit the plan of one schedule"},
                needs("--critical-path", "--draw"),
                {{"--compare", "--draw"},
                 {},
                 "--compare and --draw exclude each other",
                 "draw the plan of one schedule"}},
      .run = [=] { return plan(*a, overrides); }};
}

}  // namespace sluice
