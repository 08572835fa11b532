// sluice plan: what a run would do, without starting it.
#include <CLI/CLI.hpp>
#include <memory>

#include "command_line.h"
#include "commands.h"
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
  print_plan(make_warned_plan(config), arguments.json);
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
  // Carried out by sluice-run: main.cpp.
  command->add_option("--measure",
                      "COSTS.json: time the layers on this machine, write their costs "
                      "there, and plan with them");
  command->footer("Overrides: --section.key value or --section.key=value, see `config reference`.");
  command->callback([arguments, overrides] { plan(*arguments, overrides); });
}

}  // namespace sluice
