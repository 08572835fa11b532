// sluice data ...: text and ids. One function of commands.h for each command below it.
#include <CLI/CLI.hpp>

#include "commands.h"

namespace sluice {
void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Turns text into ids, and says what files hold.");
  data->require_subcommand(1);
  add_tokenize_command(*data);
  add_inspect_command(*data);
}

}  // namespace sluice
