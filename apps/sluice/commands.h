// The commands. Each has a file apps/sluice/<name>_command.cpp with a function that returns its
// Command.
//
// How to write a command:
//  - `run` owns the struct that the options fill (a shared_ptr captured by value), because `run` is
// called after the function has returned.
//  - `run` checks values that no Option or OptionRule checks. It throws sluice::Error, and
// run_program() prints it. `run` returns 0, or an exit code if the printed result is itself a
// failure (`--check`: 3).
//  - Results go to stdout and all else to stderr. With --json, stdout gets one JSON value.
//  - Overrides (`--section.key value`) are passed as an argument, because main() removes them from
// the command line first.
//  - Declare the function here and add it to run() of main.cpp or run_main.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "command.h"
#include "config/run_config.h"

namespace sluice {

// Commands of sluice-run.
Command checkpoint_command();
Command eval_command(const Overrides& overrides);
Command measure_command(const Overrides& overrides);  // sluice plan --measure
Command sample_command(const Overrides& overrides);
Command train_command(const Overrides& overrides);

// The help text of a command that sluice-run executes, from which shell completion takes its words.
// `takes_keys`: the command accepts configuration overrides.
struct CompletedText {
  std::string name, help;
  bool takes_keys = false;
};

// Commands of sluice. `program` returns all commands but completion. `others` are the commands of
// sluice-run.
Command completion_command(const std::function<Command()>& program,
                           const std::vector<CompletedText>& others);
Command config_command(const Overrides& overrides);
Command data_command();
Command debug_command();
Command graph_command();
Command init_command();
Command inspect_command();  // subcommand of `data`
// `launched` is the command line after "--", from take_launched(). `commands` are the commands of
// sluice. Any other word names a program.
Command launch_command(const std::vector<std::string>& launched,
                       const std::vector<std::string>& commands);
std::vector<std::string> take_launched(std::vector<std::string>& arguments);
Command metrics_command();
Command plan_command(const Overrides& overrides);
Command report_command();
Command schedule_command();
Command split_command();
Command tokenize_command();  // subcommand of `data`

}  // namespace sluice
