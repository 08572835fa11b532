// sluice data ...: text and ids. One function of commands.h for each command below it.
#include <CLI/CLI.hpp>

#include "command_line.h"
#include "commands.h"
#include "sluice/error.h"

namespace sluice {
namespace {

void add_inspect_command(CLI::App& data) {
  CLI::App* command = data.add_subcommand("inspect", "What a file of training data holds.");
  command->group(kNotBuiltGroup);
  command->allow_extras();
  command->callback([] {
    throw Error(ErrorKind::kUsage, {.what = "the command 'data inspect' is not built yet",
                                    .where = "command 'sluice data inspect'",
                                    .remedy = "see 'sluice data --help' for those that are"});
  });
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Turns text into ids, and says what files hold.");
  data->require_subcommand(1);
  add_tokenize_command(*data);
  add_inspect_command(*data);
}

}  // namespace sluice
