// Describes a command as data. command_line.cpp parses it and prints its help.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sluice {

// Where an option's value is stored. A vector gets all remaining arguments.
using OptionValue = std::variant<std::monostate, bool*, std::string*, std::optional<std::string>*,
                                 std::optional<int>*, std::vector<std::string>*>;

struct Option {
  const char* names;  // such as "-n,--nproc-per-node"; "FILE" without dashes: positional
  OptionValue value;
  const char* help;
  int min = 1, max = 1 << 20;
  bool is_required = false;
  bool shows_default = false;
  const char* if_empty = "";  // error message for an empty value; "": an empty value is allowed
  const char* empty_remedy = "";
};
Option required(Option option);
// The positional argument CONFIG, which must not be empty.
Option config_file(std::string& file, const char* help = "configuration (TOML)");

struct OptionGroup {
  const char* title;
  std::vector<Option> options;
};

// Rejects a command line that has all options of `given` and none of `missing`. Unset flags and
// empty texts count as missing. The first violated rule is reported.
struct OptionRule {
  std::vector<const char*> given, missing;
  std::string what, remedy;
};
// `option` needs `other`, unless `unless` is given.
OptionRule needs(const char* option, const char* other, const char* unless = nullptr);
OptionRule not_built(const char* option, const char* remedy);

struct Command {
  std::string name, help;
  std::vector<Option> options = {};
  std::vector<OptionGroup> groups = {};
  std::string footer = {};
  std::vector<OptionRule> rules = {};
  // Returns the exit code, or nothing to continue with the named subcommand. Without `run`, a
  // subcommand is required.
  std::function<std::optional<int>()> run = {};
  std::vector<Command> commands = {};
};

}  // namespace sluice
