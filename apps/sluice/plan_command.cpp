// sluice plan: what a run would do, without starting it.
#include <memory>

#include "command_line.h"
#include "commands.h"
#include "config/run_config.h"
#include "warned_plan.h"

namespace sluice {
namespace {

struct PlanArguments {
  std::string file;
  bool json = false;
};

int plan(const PlanArguments& arguments, const Overrides& overrides) {
  const RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  print_plan(make_warned_plan(config), arguments.json);
  return 0;
}

}  // namespace

Command plan_command(const Overrides& overrides) {
  const auto a = std::make_shared<PlanArguments>();
  return {
      .name = "plan",
      .help = "Split, schedule, predicted time, bubble and memory of a run.",
      .options = {required(config_file(a->file)),
                  {"--json", &a->json, "as JSON"},
                  {"--draw", NotBuilt{"leave it out: the schedule is drawn on the terminal"},
                   "FILE: picture of the schedule"},
                  // Carried out by sluice-run: main.cpp.
                  {"--measure", std::monostate(),
                   "COSTS.json: time the layers on this machine, write their costs there, and plan "
                   "with them"}},
      .footer = "Overrides: --section.key value or --section.key=value, see `config reference`.",
      .run = [=] { return plan(*a, overrides); }};
}

}  // namespace sluice
