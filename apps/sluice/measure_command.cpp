// sluice plan --measure: times the layers on this machine, writes their costs, plans with them.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "command_line.h"
#include "commands.h"
#include "output_file.h"
#include "sluice/error.h"
#include "sluice/job.h"
#include "sluice/run_config.h"
#include "warned_plan.h"

namespace sluice {
namespace {

constexpr const char* kMeasure = "--measure";

struct MeasureArguments {
  std::string file, costs;
  bool json = false;
};

void measure(const MeasureArguments& arguments, const Overrides& overrides) {
  RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  std::error_code not_there;
  if (std::filesystem::equivalent(arguments.costs, arguments.file, not_there)) {
    throw Error(ErrorKind::kUsage, {.what = "the costs would take the place of the configuration",
                                    .where = std::string(kMeasure) + " " + arguments.costs,
                                    .remedy = "name another file"});
  }
  check_output_file(arguments.costs, kMeasure);
  write_output_file(arguments.costs, measure_machine(config).times, kMeasure);
  config.parallelism.costs = arguments.costs;
  config.origins["parallelism.costs"] = kMeasure;
  print_plan(make_warned_plan(config), arguments.json);
}

}  // namespace

void add_measure_command(CLI::App& app, const Overrides& overrides) {
  CLI::App* command = app.add_subcommand("plan", "Times the layers of a run on this machine.");
  const auto arguments = std::make_shared<MeasureArguments>();
  add_config_file(*command, arguments->file, "configuration (TOML)")->required();
  command->add_flag("--json", arguments->json, "as JSON");
  command->add_option(kMeasure, arguments->costs, "COSTS.json: write the costs there")->required();
  command->callback([arguments, overrides] {
    run_job([&] {
      measure(*arguments, overrides);
      return 0;
    });
  });
}

}  // namespace sluice
