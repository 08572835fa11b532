// sluice config check|show|reference: the configuration without a run.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "config/toml_reader.h"
#include "sluice/plan.h"
#include "sluice/run_config.h"
#include "warned_plan.h"

namespace sluice {
namespace {

struct ConfigArguments {
  std::string file;
  bool json = false;
};

void check(const ConfigArguments& arguments, const Overrides& overrides) {
  const RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  const Plan plan = make_warned_plan(config);
  const std::vector<std::string> files = expand_data_files(config);
  if (!config.validation.files.empty()) expand_validation_files(config);
  if (arguments.json) {
    nlohmann::ordered_json object;
    object["ok"] = true;
    object["data_files"] = files.size();
    object["num_parameters"] = plan.model.num_parameters();
    object["num_stages"] = plan.partition.num_stages();
    object["notes"] = plan.notes;
    std::cout << object.dump() << "\n";
    print_warnings(plan);
    return;
  }
  std::cout << (arguments.file.empty() ? "no file" : arguments.file)
            << ": ok: " << plan.model.family << ", " << with_commas(plan.model.num_parameters())
            << " parameters on " << counted(plan.partition.num_stages(), "stage") << ", schedule "
            << plan.schedule.name << ", "
            << counted(static_cast<std::int64_t>(files.size()), "data file") << "\n";
  for (const std::string& note : plan.notes) std::cout << "note: " << note << "\n";
  print_warnings(plan);
}

}  // namespace

void add_config_command(CLI::App& app, const Overrides& overrides) {
  CLI::App* config = app.add_subcommand("config", "Checks, shows or explains the configuration.");
  config->require_subcommand(1);
  const auto arguments = std::make_shared<ConfigArguments>();
  const auto add = [&](const char* name, const char* help, const char* file_help) {
    CLI::App* command = config->add_subcommand(name, help);
    add_config_file(*command, arguments->file, file_help);
    command->add_flag("--json", arguments->json, "as JSON");
    return command;
  };
  const char* file_help = "configuration (TOML); without: defaults, environment and overrides";

  CLI::App* check_command =
      add("check", "Keys, values, the model's configuration, the plan; that data.files are there.",
          file_help);
  check_command->footer(
      "Reads neither data nor weights: `train` checks those, the folders and the memory before it "
      "creates anything.");
  check_command->callback([arguments, overrides] { check(*arguments, overrides); });

  add("show", "Every value with its origin.", file_help)->callback([arguments, overrides] {
    const RunConfig run = load_run_config(arguments->file, overrides, sluice_environment());
    std::cout << (arguments->json ? show_config_json(run) : show_config(run));
  });

  add("reference", "Every key: type, default, what is allowed, meaning.",
      "must exist if given, but changes nothing: the reference is the same for all")
      ->callback([arguments] {
        if (!arguments->file.empty()) detail::read_config_file(arguments->file);
        std::cout << (arguments->json ? config_reference_json() : config_reference());
      });
}

}  // namespace sluice
