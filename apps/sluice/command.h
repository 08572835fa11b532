// Describes a command of sluice as data: its options, the rules between them and its action.
// command_line.cpp parses the command line and prints the help.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sluice {

// Where the value of an option is stored. std::monostate stores nothing. A vector takes all
// remaining arguments.
using OptionValue = std::variant<std::monostate, bool*, std::string*, std::optional<std::string>*,
                                 std::optional<int>*, std::vector<std::string>*>;

struct Option {
  const char* names;  // "--pp", "-n,--nproc-per-node", or "FILE" for a positional argument
  OptionValue value;
  const char* help;
  int min = 1, max = 1 << 20;  // range of an integer
  bool is_required = false;
  bool shows_default = false;  // the help shows the initial text as the default
  const char* if_empty = "";   // error message for an empty value; "": allowed
  const char* empty_remedy = "";
};
Option required(Option option);
// The argument CONFIG. It must not be empty if it is given.
Option config_file(std::string& file, const char* help = "configuration (TOML)");

struct OptionGroup {
  const char* title;
  std::vector<Option> options;
};

// Refuses a command line that has all of `given` and none of `missing`. A flag counts as given if
// it is set, a text if it is not empty, and an optional if it has a value. The first rule that
// applies is reported.
struct OptionRule {
  std::vector<const char*> given, missing;
  std::string what, remedy;
};
// `option` needs `other`, except together with `unless`.
OptionRule needs(const char* option, const char* other, const char* unless = nullptr);

struct Command {
  std::string name, help;
  std::vector<Option> options = {};
  std::vector<OptionGroup> groups = {};  // shown separately in the help
  std::string footer = {};
  std::vector<OptionRule> rules = {};
  // Returns the exit code. A command with subcommands returns nothing to run the named subcommand.
  // Without `run` a subcommand is required.
  std::function<std::optional<int>()> run = {};
  std::vector<Command> commands = {};
};

}  // namespace sluice
