#include <filesystem>
#include <memory>
#include <system_error>

#include "base/format.h"
#include "base/json.h"
#include "base/log.h"
#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "config/import/config_import.h"
#include "config/run_config.h"
#include "config/toml_reader.h"
#include "output_file.h"
#include "sluice/plan.h"
#include "warned_plan.h"

namespace sluice {
namespace {

struct ImportArguments {
  std::string file, from, out;
};

struct ConfigArguments {
  std::string file;
  bool json = false;
};

int check(const ConfigArguments& arguments, const Overrides& overrides) {
  const RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  require_adapter_base(config);
  const Plan plan = make_warned_plan(config);
  const std::vector<std::string> files = expand_data_files(config);
  if (!config.validation.files.empty()) expand_validation_files(config);
  if (arguments.json) {
    Json object;
    object["ok"] = true;
    object["data_files"] = files.size();
    object["num_parameters"] = plan.model.num_parameters();
    object["num_stages"] = plan.partition.num_stages();
    object["notes"] = plan.notes;
    print_exact(object.dump() + "\n");
    print_warnings(plan);
    return 0;
  }
  print(formatted("{}: ok: {}, {} parameters on {}, schedule {}, {}\n",
                  arguments.file.empty() ? "no file" : arguments.file, plan.model.family,
                  with_commas(plan.model.num_parameters()),
                  counted(plan.partition.num_stages(), "stage"), plan.schedule.name,
                  counted(static_cast<std::int64_t>(files.size()), "data file")));
  for (const std::string& note : plan.notes) print("note: " + note + "\n");
  print_warnings(plan);
  return 0;
}

int show(const ConfigArguments& arguments, const Overrides& overrides) {
  const RunConfig run = load_run_config(arguments.file, overrides, sluice_environment());
  arguments.json ? print_exact(show_config_json(run)) : print(show_config(run));
  return 0;
}

int reference(const ConfigArguments& arguments) {
  if (!arguments.file.empty()) detail::read_config_file(arguments.file);
  arguments.json ? print_exact(config_reference_json())
                 : print(config_reference() + "\n" + peer_reference());
  return 0;
}

int import(const ImportArguments& arguments, const Overrides& overrides) {
  if (!overrides.empty()) {
    throw Error(ErrorKind::kUsage,
                {.what = "an import takes no keys",
                 .where = "--" + overrides.front().first,
                 .remedy = "give --out, and set the key in that file or on `sluice train`"});
  }
  std::error_code missing;
  if (std::filesystem::equivalent(arguments.file, arguments.out, missing)) {
    throw Error(ErrorKind::kUsage, {.what = "--out is the file to import, which would be lost",
                                    .where = arguments.out,
                                    .remedy = "give --out another name, such as run.toml"});
  }
  if (!arguments.out.empty()) check_output_file(arguments.out, "--out");
  const ImportedConfig imported = import_config(arguments.file, arguments.from, arguments.out);
  if (arguments.out.empty()) {
    print_exact(imported.toml);
  } else {
    write_output_file(arguments.out, imported.toml, "--out");
  }
  finish_stdout();
  for (const std::string& note : imported.notes) log_info(note);
  return 0;
}

Command import_command(const Overrides& overrides) {
  const auto a = std::make_shared<ImportArguments>();
  return {.name = "import",
          .help = "Translates a configuration of axolotl, LLaMA-Factory, torchtune or TRL.",
          .options = {required({.names = "FILE",
                                .value = &a->file,
                                .help = "YAML, JSON, or a text file with a command line",
                                .if_empty = "the file has no name",
                                .empty_remedy = "name a file"}),
                      {"--from", &a->from,
                       "axolotl, llama-factory, torchtune or trl; default: by keys"},
                      {"--out", &a->out, "file for the TOML; default: stdout"}},
          .footer =
              "Stderr and comments in the TOML list what was left out, why, and what to run first.",
          .run = [a, overrides] { return import(*a, overrides); }};
}

}  // namespace

Command config_command(const Overrides& overrides) {
  const auto a = std::make_shared<ConfigArguments>();
  const auto options = [&a](const char* file_help) -> std::vector<Option> {
    return {config_file(a->file, file_help), {"--json", &a->json, "as JSON"}};
  };
  const char* file = "configuration (TOML); without it: defaults, environment and overrides";
  const Command check_command = {
      .name = "check",
      .help =
          "Checks keys, values, the model's configuration and the plan, and that data.files exist.",
      .options = options(file),
      .footer =
          "Reads no weights, and data only to count small files: `train` checks both, folders and "
          "memory before it creates anything.",
      .run = [=] { return check(*a, overrides); }};
  const Command show_command = {.name = "show",
                                .help = "Shows every value with its origin.",
                                .options = options(file),
                                .run = [=] { return show(*a, overrides); }};
  file = "must exist if given, but does not change the output";
  const Command reference_command = {
      .name = "reference",
      .help = "Lists every key: type, default, allowed values, meaning.",
      .options = options(file),
      .run = [=] { return reference(*a); }};
  return {.name = "config",
          .help = "Checks, shows or imports a configuration, or lists all keys.",
          .commands = {check_command, show_command, import_command(overrides), reference_command}};
}

}  // namespace sluice
