// One command is one file, apps/sluice/<name>_command.cpp, and one function declared here.
//
// The convention of a command file:
//  - `Command <name>_command()` describes the command: its options, the rules between them, and
//    `run`, which does the work. What the options set is a struct that `run` owns (a shared_ptr
//    captured by value), since it runs after the function has returned.
//  - A failure is thrown as sluice::Error; run_program() prints the one line. `run` returns 0, or
//    the exit code of a printed result that is itself a failure (`--check`: 3).
//  - What no Option and no OptionRule says of values is checked in `run`, as Error(kUsage).
//  - Results go to stdout and everything else to stderr; under --json, stdout has one JSON value.
//  - A command takes the overrides of the configuration (`--section.key value`) as its argument:
//    main.cpp and run_main.cpp take them out of the command line first.
// Then: a declaration here, and a line in run() of main.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "command.h"
#include "config/run_config.h"

namespace sluice {

// The commands of the program sluice-run.
Command checkpoint_command();
Command eval_command(const Overrides& overrides);
Command measure_command(const Overrides& overrides);  // plan --measure
Command sample_command(const Overrides& overrides);
Command train_command(const Overrides& overrides);

// The help of a command that another program carries out, from which its completion is taken; or
// "" of one whose options are known. takes_keys: overrides of the configuration, too.
struct CompletedText {
  std::string name, help;
  bool takes_keys = false;
};

// The commands of the program sluice.
// program: all commands but this one, as far as they are known; others: what is known beside.
Command completion_command(const std::function<Command()>& program,
                           const std::vector<CompletedText>& others);
Command config_command(const Overrides& overrides);
Command data_command();
Command debug_command();
Command graph_command();
Command init_command();
Command inspect_command();  // of `data`
// launched: what follows "--", which take_launched() takes out of the arguments. commands: of
// sluice; any other word names a program.
Command launch_command(const std::vector<std::string>& launched,
                       const std::vector<std::string>& commands);
std::vector<std::string> take_launched(std::vector<std::string>& arguments);
Command metrics_command();
Command plan_command(const Overrides& overrides);
Command report_command();
Command schedule_command();
Command split_command();
Command tokenize_command();  // of `data`

}  // namespace sluice
