// One command is one file, apps/sluice/<name>_command.cpp, and one function declared here.
//
// The convention of a command file:
//  - `void add_<name>_command(CLI::App& app)` adds one subcommand to `app`, with its options and a
//    callback that does the work. The options live in a struct that the callback owns (a shared_ptr
//    captured by value), since the callback runs after the function has returned.
//  - A failure is thrown as sluice::Error; run_app() prints the one line and sets the exit code.
//    Only a command whose printed result can itself be a failure (`--check`: 3) takes an
//    `int& exit_code` to set, as its last argument.
//  - Option values that no CLI::Validator covers are checked in the callback, as Error(kUsage).
//  - Results go to stdout and everything else to stderr; under --json, stdout has one JSON value.
//  - A command takes the overrides of the configuration (`--section.key value`) as its second
//    argument: main.cpp and run_main.cpp take them out of the arguments first.
// Then: a declaration here, and a line in run() of main.cpp.
#pragma once

#include <string>
#include <vector>

#include "sluice/run_config.h"

namespace CLI {
class App;
}

namespace sluice {

// Of the program sluice-run.
void add_checkpoint_command(CLI::App& app);
void add_eval_command(CLI::App& app, const Overrides& overrides);
void add_measure_command(CLI::App& app, const Overrides& overrides);  // plan --measure
void add_train_command(CLI::App& app, const Overrides& overrides, int& exit_code);

// Of the program sluice.
void add_config_command(CLI::App& app, const Overrides& overrides);
void add_data_command(CLI::App& app);
void add_debug_command(CLI::App& app);
// command: what follows "--", which take_launched() takes out of the arguments.
void add_launch_command(CLI::App& app, const std::vector<std::string>& command, int& exit_code);
std::vector<std::string> take_launched(std::vector<std::string>& arguments);
void add_inspect_command(CLI::App& data);  // of `data`
void add_plan_command(CLI::App& app, const Overrides& overrides);
void add_split_command(CLI::App& app);
void add_tokenize_command(CLI::App& data);  // of `data`
void add_schedule_command(CLI::App& app, int& exit_code);

}  // namespace sluice
