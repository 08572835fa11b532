// A command of sluice as data: its options, the rules between them, and what it does.
//
// Owns: the description of a command line. Does not own: parsing and help (command_line.cpp), the
// variables that options set. Thread-safety: values.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sluice {

// The target of an option: a flag, a text, a whole number, all remaining arguments. With
// std::monostate its value is not read here.
using OptionValue = std::variant<std::monostate, bool*, std::string*, std::optional<std::string>*,
                                 std::optional<int>*, std::vector<std::string>*>;

struct Option {
  const char* names;  // "--pp", "-n,--nproc-per-node", or "FILE" of an argument without a name
  OptionValue value;
  const char* help;
  int min = 1, max = 1 << 20;  // range of a whole number
  bool is_required = false;
  bool shows_default = false;  // the text that is there, in the help
  const char* if_empty = "";   // what is wrong with an empty text, if anything
  const char* empty_remedy = "";
};
Option required(Option option);
// The argument CONFIG; a name that is given may not be empty.
Option config_file(std::string& file, const char* help = "configuration (TOML)");

struct OptionGroup {
  const char* title;
  std::vector<Option> options;
};

// Refused: all of `given` are given and none of `missing` is. A flag is given when it is set, a
// text when it is not empty, an optional value when it is there. Rules are tried in their order.
struct OptionRule {
  std::vector<const char*> given, missing;
  std::string what, remedy;
};
// "--a needs --b"; `unless` is an option with which it does not.
OptionRule needs(const char* option, const char* other, const char* unless = nullptr);

struct Command {
  std::string name, help;
  std::vector<Option> options = {};
  std::vector<OptionGroup> groups = {};  // options that the help shows apart
  std::string footer = {};
  std::vector<OptionRule> rules = {};
  // Returns the exit code. Of a command with others below it: nothing, and the one that was named
  // is run; without `run` one of them has to be named.
  std::function<std::optional<int>()> run = {};
  std::vector<Command> commands = {};
};

}  // namespace sluice
