// sluice plan: what a run would do, without starting it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "sluice/plan.h"
#include "sluice/run_config.h"
#include "warned_plan.h"

namespace sluice {
namespace {

struct PlanArguments {
  std::string file;
  bool json = false;
};

void plan(const PlanArguments& arguments, const Overrides& overrides) {
  const RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  const Plan made = make_warned_plan(config);
  if (arguments.json) {
    std::cout << plan_json(made);
  } else {
    std::cout << describe_plan(made, {use_color(STDOUT_FILENO), terminal_width(STDOUT_FILENO)});
  }
  print_warnings(made);
}

}  // namespace

void add_plan_command(CLI::App& app, const Overrides& overrides) {
  CLI::App* command =
      app.add_subcommand("plan", "Split, schedule, predicted time, bubble and memory of a run.");
  const auto arguments = std::make_shared<PlanArguments>();
  add_config_file(*command, arguments->file, "configuration (TOML)")->required();
  command->add_flag("--json", arguments->json, "as JSON");
  add_not_built(*command, "--draw", "FILE: picture of the schedule",
                "leave it out: the schedule is drawn on the terminal");
  add_not_built(*command, "--measure", "COSTS.json: costs of the stages, timed on this machine",
                "leave it out: the costs are estimated");
  command->footer("Overrides: --section.key value or --section.key=value, see `config reference`.");
  command->callback([arguments, overrides] { plan(*arguments, overrides); });
}

}  // namespace sluice
