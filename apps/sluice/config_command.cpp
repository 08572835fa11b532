// sluice config check|show|reference: the configuration without a run.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "commands.h"
#include "sluice/plan.h"
#include "sluice/run_config.h"

namespace sluice {
namespace {

struct ConfigArguments {
  std::string file;
  bool json = false;
};

void check(const ConfigArguments& arguments, const Overrides& overrides) {
  const RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  const Plan plan = make_plan(config);
  const std::vector<std::string> files = expand_data_files(config);
  if (arguments.json) {
    nlohmann::ordered_json object;
    object["ok"] = true;
    object["data_files"] = files.size();
    object["num_parameters"] = plan.model.num_parameters();
    object["num_stages"] = plan.partition.num_stages;
    std::cout << object.dump() << "\n";
    return;
  }
  std::cout << arguments.file << ": ok: " << plan.model.family << ", "
            << with_commas(plan.model.num_parameters()) << " parameters on "
            << counted(plan.partition.num_stages, "stage") << ", schedule " << plan.schedule.name
            << ", " << counted(static_cast<std::int64_t>(files.size()), "data file") << "\n";
}

}  // namespace

void add_config_command(CLI::App& app, const Overrides& overrides, int&) {
  CLI::App* config = app.add_subcommand("config", "Checks, shows or explains the configuration.");
  config->require_subcommand(1);
  const auto arguments = std::make_shared<ConfigArguments>();
  const auto add = [&](const char* name, const char* help) {
    CLI::App* command = config->add_subcommand(name, help);
    command->add_flag("--json", arguments->json, "as JSON");
    return command;
  };

  CLI::App* check_command =
      add("check", "All that `train` checks before it starts: keys, model, plan, data files.");
  check_command->add_option("CONFIG", arguments->file, "configuration (TOML)")->required();
  check_command->callback([arguments, overrides] { check(*arguments, overrides); });

  CLI::App* show = add("show", "Every value with its origin.");
  show->add_option("CONFIG", arguments->file, "configuration (TOML); without: the defaults");
  show->callback([arguments, overrides] {
    const RunConfig run = load_run_config(arguments->file, overrides, sluice_environment());
    std::cout << (arguments->json ? show_config_json(run) : show_config(run));
  });

  add("reference", "Every key: type, default, what is allowed, meaning.")->callback([arguments] {
    std::cout << (arguments->json ? config_reference_json() : config_reference());
  });
}

}  // namespace sluice
