// The program `sluice-run`: the commands that need torch. `sluice` executes it in its own place.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "sluice/run_config.h"

namespace sluice {
namespace {

int run(std::vector<std::string> arguments) {
  const Overrides overrides = take_overrides(arguments);
  std::vector<std::string> override_names;
  for (const std::string& key : config_keys()) override_names.push_back("--" + key);

  int exit_code = 0;
  CLI::App app("Pipeline-parallel training in C++ on LibTorch.", "sluice");
  app.set_help_flag("-h,--help", "Prints this help and exits.");
  app.require_subcommand(1);
  add_train_command(app, overrides, exit_code);
  return run_app(app, std::move(arguments), exit_code, override_names);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    return sluice::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    return sluice::report_error(error);
  }
}
