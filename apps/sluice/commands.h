// Each command has a file <name>_command.cpp, and is listed here and in main.cpp or run_main.cpp.
//
//   - `run` is called later, so it owns the struct that the options fill (a shared_ptr captured by
//     value).
//   - `run` checks what no Option or OptionRule checks, and throws sluice::Error.
//   - `run` returns 0, or another code if the result itself is a failure (`--check`: 3).
//   - Results go to stdout, all else to stderr. With --json, stdout gets one JSON value.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "command.h"
#include "config/run_config.h"

namespace sluice {

// Commands that need LibTorch, which sluice-run executes.
Command checkpoint_command();
Command eval_command(const Overrides& overrides);
Command measure_command(const Overrides& overrides);  // for `sluice plan --measure`
Command sample_command(const Overrides& overrides);
Command train_command(const Overrides& overrides);

// Help text of a sluice-run command. Shell completion takes option names from the text.
struct CompletedText {
  std::string name, help;
  bool takes_keys = false;
};

// Commands of sluice. `program` returns all of them except completion. `others` are those of
// sluice-run.
Command completion_command(const std::function<Command()>& program,
                           const std::vector<CompletedText>& others);
Command compare_command();
Command config_command(const Overrides& overrides);
Command data_command();
Command debug_command();
Command graph_command();
Command init_command();
Command inspect_command();
// `launched` is the command line after "--". It begins with one of sluice's `commands` or names
// another program.
Command launch_command(const std::vector<std::string>& launched,
                       const std::vector<std::string>& commands);
std::vector<std::string> take_launched(std::vector<std::string>& arguments);
Command metrics_command();
Command plan_command(const Overrides& overrides);
Command report_command();
Command schedule_command();
Command split_command();
Command tokenize_command();

}  // namespace sluice
