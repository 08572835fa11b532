// sluice plan: what a run would do, without starting it.
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "config/run_config.h"
#include "report/candidates_output.h"
#include "sluice/error.h"
#include "warned_plan.h"

namespace sluice {
namespace {

struct PlanArguments {
  std::string file;
  bool json = false, compare = false;
  std::string device_memory, flops, bandwidth;
};

// A number above 0, "400e12".
double rate(const char* option, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && last == end && std::isfinite(value) && value > 0) return value;
  throw Error(ErrorKind::kUsage, {.what = "'" + text + "' is no number above 0",
                                  .where = option,
                                  .remedy = std::string("give it as ") + option + " 400e12"});
}

// The configuration on machines that are not here, as far as the options describe them.
RunConfig config_of(const PlanArguments& arguments, Overrides overrides) {
  if (!arguments.device_memory.empty())
    overrides.emplace_back("parallelism.device_memory", arguments.device_memory);
  RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  if (arguments.flops.empty()) return config;
  config.speed = {.flops = rate("--flops", arguments.flops)};
  if (!arguments.bandwidth.empty())
    config.speed->bandwidth = rate("--bandwidth", arguments.bandwidth);
  return config;
}

void print_comparison(const Comparison& comparison, bool json) {
  std::cout << (json ? comparison_json(comparison)
                     : comparison_text(comparison, terminal_width(STDOUT_FILENO)));
  finish_stdout();
}

int plan(const PlanArguments& arguments, const Overrides& overrides) {
  const RunConfig config = config_of(arguments, overrides);
  if (arguments.compare) {
    print_comparison(compare_schedules(config), arguments.json);
    return 0;
  }
  print_plan(make_warned_plan(config), arguments.json);
  return 0;
}

}  // namespace

Command plan_command(const Overrides& overrides) {
  const auto a = std::make_shared<PlanArguments>();
  return {
      .name = "plan",
      .help = "Split, schedule, predicted time, bubble and memory of a run.",
      .options =
          {required(config_file(a->file)),
           {"--json", &a->json, "as JSON"},
           {"--compare", &a->compare,
            "every schedule and number of stages a rank: expected step, bubble, peak memory, "
            "or why not"},
           {"--draw", NotBuilt{"leave it out: the schedule is drawn on the terminal"},
            "FILE: picture of the schedule"},
           // Carried out by sluice-run: main.cpp.
           {"--measure", std::monostate(),
            "COSTS.json: time the layers on this machine, write their costs there, and plan "
            "with them"}},
      .groups = {{"Machines that are not here",
                  {{"--device-memory", &a->device_memory,
                    "80GB: memory that a rank may use, as parallelism.device_memory"},
                   {"--flops", &a->flops,
                    "400e12: operations a second that a rank attains; times are seconds of them"},
                   {"--bandwidth", &a->bandwidth,
                    "50e9: bytes a second between ranks, beside --flops"}}}},
      .footer = "Overrides: --section.key value or --section.key=value, see `config reference`.",
      .rules = {needs("--bandwidth", "--flops")},
      .run = [=] { return plan(*a, overrides); }};
}

}  // namespace sluice
