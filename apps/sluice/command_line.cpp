#include "command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>
#include <system_error>
#include <variant>

#include "base/as_error.h"
#include "base/error_list.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "config/peer_keys.h"
#include "launch/reported_elsewhere.h"
#include "sluice/plan.h"

namespace sluice {
namespace {

constexpr std::size_t kHelpColumns = 100;

std::string folded(std::string line, std::size_t indent) {
  std::string text;
  while (line.size() > kHelpColumns) {
    const std::size_t space = line.rfind(' ', kHelpColumns);
    if (space == std::string::npos || space <= indent) break;
    text += line.substr(0, space) + "\n";
    line = std::string(indent, ' ') + line.substr(space + 1);
  }
  return text + line;
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
    text.pop_back();
    std::string lines;
    for (const std::string& line : split(text, '\n'))
      lines += folded(line, line.starts_with("  ") ? get_column_width() : 0) + "\n";
    return lines;
  }
};

CLI::App& selected(CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : selected(*chosen.front());
}

std::string full_name(const CLI::App& app) {
  const std::string& own = app.get_name();
  return app.get_parent() ? full_name(*app.get_parent()) + " " + own : own;
}

Error refused(const CLI::App& app, const std::string& what, const std::string& remedy) {
  return {ErrorKind::kUsage,
          {.what = what, .where = "command '" + full_name(app) + "'", .remedy = remedy}};
}

// The command to name in an error: the outermost with unexpected arguments, or else the innermost.
const CLI::App& command_with_unparsed_arguments(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() || !app.remaining().empty()
             ? app
             : command_with_unparsed_arguments(*chosen.front());
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Returns "pp" for parallelism.pipeline_parallel_degree, and "" for keys without "degree".
std::string initials_of_degree(std::string_view key) {
  constexpr std::string_view kSection = "parallelism.", kDegree = "degree";
  if (key.starts_with("--")) key.remove_prefix(2);
  if (key.starts_with(kSection)) key.remove_prefix(kSection.size());
  if (!key.ends_with(kDegree)) return {};
  key.remove_suffix(kDegree.size());
  std::string initials;
  bool starts_word = true;
  for (const char letter : key) {
    const bool separates = letter == '_' || letter == '.';
    if (starts_word && !separates) initials += letter;
    starts_word = separates;
  }
  return initials;
}

Error unknown_option(const CLI::App& app, std::string option,
                     const std::vector<std::string>& extra_options) {
  option = option.substr(0, option.find('='));
  std::vector<std::string> names = option_names(app);
  const std::vector<std::string> own = names;
  names.insert(names.end(), extra_options.begin(), extra_options.end());
  // An option such as "--steps" or "--pp" most likely means a key such as "--training.steps".
  for (const std::string& extra : extra_options) {
    const std::size_t dot = extra.find('.');
    if (option.size() > 2 && dot != std::string::npos &&
        (extra.substr(dot + 1) == option.substr(2) ||
         initials_of_degree(extra) == option.substr(2))) {
      return refused(app, "unknown option '" + option + "'", "did you mean '" + extra + "'?");
    }
  }
  const std::string name = option.substr(option.find_first_not_of('-'));
  const detail::PeerKey* const peer = extra_options.empty() ? nullptr : detail::find_peer_key(name);
  if (peer) return refused(app, "unknown option '" + option + "'", explain(*peer));
  const std::string near = nearest_name(option, names);
  std::string remedy = near.empty() ? suggest_name(option, own) : "did you mean '" + near + "'?";
  if (near.empty() && !extra_options.empty()) {
    remedy += ", or a key as --section.key VALUE: see 'sluice config reference'";
  }
  return refused(app, "unknown option '" + option + "'", remedy);
}

// Changes CLI11's "Could not convert: --pp = x" to "'x' is not a value of --pp".
std::string fact_of(const CLI::ParseError& error) {
  const std::string before = "Could not convert: ", equals = " = ";
  std::string text = error.what();
  const std::size_t at = text.find(equals);
  if (!text.starts_with(before) || at == std::string::npos) return text;
  return "'" + text.substr(at + equals.size()) + "' is not a value of " +
         text.substr(before.size(), at - before.size());
}

Error describe(CLI::App& app, const CLI::ParseError& error,
               const std::vector<std::string>& extra_options) {
  const CLI::App& at = command_with_unparsed_arguments(app);
  const std::vector<std::string> commands = command_names(at);
  const std::vector<std::string> rest = at.remaining();
  const std::string see_help = "see '" + full_name(at) + " --help'";
  if (!rest.empty()) {
    const std::string& first = rest.front();
    if (first.size() > 1 && first.front() == '-') return unknown_option(at, first, extra_options);
    if (!commands.empty())
      return refused(at, "unknown command '" + first + "'", suggest_name(first, commands));
    return refused(at, "unexpected argument '" + first + "'", see_help);
  }
  if (!commands.empty() && at.get_subcommands().empty() && error.get_name() == "RequiredError")
    return refused(at, "no command given", suggest_name("", commands));
  return refused(at, fact_of(error), see_help);
}

// Keeps the empty value of "--name=", because CLI11 would take the next argument as the value.
std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  for (const std::string& argument : arguments) {
    const bool no_value = argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    result.push_back(no_value ? argument.substr(0, argument.size() - 1) : argument);
    if (no_value) result.emplace_back();
  }
  return result;
}

int count_of(const CLI::App& app, const Option& option, const std::string& text) {
  const auto [min, max] = std::pair(option.min, option.max);
  int count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  if (error == std::errc() && rest == end && count >= min && count <= max) return count;
  throw refused(app, "'" + text + "' is not a value of " + option.names,
                formatted("give a whole number from {} to {}", min, max));
}

template <typename... Calls>
struct Overloaded : Calls... {
  using Calls::operator()...;
};
template <typename... Calls>
Overloaded(Calls...) -> Overloaded<Calls...>;

void set_value(const CLI::App& app, const Option& option, const std::vector<std::string>& words) {
  const auto text = [&] {
    if (words.front().empty() && *option.if_empty)
      throw refused(app, option.if_empty, option.empty_remedy);
    return words.front();
  };
  std::visit(
      Overloaded{[](auto) {}, [&](std::string* value) { *value = text(); },
                 [&](std::optional<std::string>* value) { *value = text(); },
                 [&](std::optional<int>* value) { *value = count_of(app, option, words.front()); },
                 [&](std::vector<std::string>* value) { *value = words; }},
      option.value);
}

const char* type_name(const OptionValue& value) {
  return std::visit(
      Overloaded{[](auto) { return "TEXT"; }, [](std::optional<int>*) { return "INT"; },
                 [](std::monostate) { return ""; }},
      value);
}

void add_option(CLI::App& app, const Option& option, const char* group) {
  if (bool* const* flag = std::get_if<bool*>(&option.value)) {
    app.add_flag(option.names, **flag, option.help)->group(group);
    return;
  }
  const auto set = [&app, &option](const CLI::results_t& words) {
    set_value(app, option, words);
    return true;
  };
  CLI::Option* const added = app.add_option(option.names, set, option.help);
  added->required(option.is_required)->type_name(type_name(option.value))->group(group);
  if (std::holds_alternative<std::vector<std::string>*>(option.value))
    added->expected(CLI::detail::expected_max_vector_size);
  if (option.shows_default) added->default_str(*std::get<std::string*>(option.value));
}

// `command` must outlive `app`.
void describe_to(CLI::App& app, const Command& command) {
  for (const Option& option : command.options) add_option(app, option, "Options");
  for (const OptionGroup& group : command.groups)
    for (const Option& option : group.options) add_option(app, option, group.title);
  app.footer(command.footer);
  if (command.commands.empty()) return;
  app.require_subcommand(command.run ? 0 : 1, 1);
  for (const Command& below : command.commands)
    describe_to(*app.add_subcommand(below.name, below.help), below);
}

bool is_given(const Command& command, const std::string& name) {
  const Overloaded holds = {
      [](auto) { return false; }, [](bool* value) { return *value; },
      [](std::string* value) { return !value->empty(); },
      []<typename Value>(std::optional<Value>* value) { return value->has_value(); }};
  std::vector<Option> options = command.options;
  for (const OptionGroup& group : command.groups)
    options.insert(options.end(), group.options.begin(), group.options.end());
  for (const Option& option : options) {
    if (("," + std::string(option.names) + ",").find("," + name + ",") != std::string::npos)
      return std::visit(holds, option.value);
  }
  assert(false && "a rule names an option that its command does not have");
  return false;
}

void check_rules(const CLI::App& app, const Command& command) {
  const auto given = [&](const char* name) { return is_given(command, name); };
  for (const OptionRule& rule : command.rules) {
    if (std::all_of(rule.given.begin(), rule.given.end(), given) &&
        std::none_of(rule.missing.begin(), rule.missing.end(), given))
      throw refused(app, rule.what, rule.remedy);
  }
}

int run_chosen(const CLI::App& app, const Command& command) {
  check_rules(app, command);
  if (command.run) {
    if (const std::optional<int> exit_code = command.run()) return *exit_code;
  }
  for (const CLI::App* chosen : app.get_subcommands()) {
    const auto below =
        std::find_if(command.commands.begin(), command.commands.end(),
                     [&](const Command& each) { return each.name == chosen->get_name(); });
    return run_chosen(*chosen, *below);
  }
  if (!command.commands.empty()) throw CLI::RequiredError::Subcommand(1);
  return 0;
}

}  // namespace

void begin_process() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() returns the lowest free descriptor, which is this one. It is read-only, so that
    // writing to a closed stdout still fails.
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDONLY);
  }
  std::signal(SIGXFSZ, SIG_IGN);
  // Block these signals. The program started by exec() keeps them blocked until the run handles
  // them (StopSignal, RecordSignal).
  sigset_t requests;
  sigemptyset(&requests);
  sigaddset(&requests, SIGUSR1);
  sigaddset(&requests, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &requests, nullptr);
}

OptionRule needs(const char* option, const char* other, const char* unless) {
  OptionRule rule{{option}, {other}, option + (" needs " + std::string(other)), {}};
  rule.remedy = "give " + std::string(other) + " too";
  if (unless) rule.missing.push_back(unless);
  return rule;
}

OptionRule not_built(const char* option, const char* remedy) {
  return {{option}, {}, std::string(option) + " is not built yet", remedy};
}

Option required(Option option) {
  option.is_required = true;
  return option;
}

Option config_file(std::string& file, const char* help) {
  return {.names = "CONFIG",
          .value = &file,
          .help = help,
          .if_empty = "the name of the configuration is empty",
          .empty_remedy = "name a .toml file"};
}

int report_error(const std::exception_ptr& thrown) {
  const Error error = as_error(thrown);
  std::string line = error.what();
  std::cout.flush();
  std::fflush(stdout);
  try {
    std::rethrow_exception(thrown);
  } catch (const ReportedElsewhere&) {
    return error.exit_code();
  } catch (const RefusedSchedule& refused) {
    const GridOptions options{use_color(STDERR_FILENO), terminal_width(STDERR_FILENO)};
    std::fputs(draw_violations(refused.program(), refused.report(), options).c_str(), stderr);
  } catch (const ErrorList& list) {
    for (std::size_t i = 1; i < list.errors().size(); ++i)
      line += std::string("\nsluice: error: ") + list.errors()[i].what();
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
    line += "; use fewer ranks, stages or microbatches";
  } catch (...) {
    line = "internal: " + line;
  }
  std::fprintf(stderr, "sluice: error: %s\n", line.c_str());
  return error.exit_code();
}

void finish_stdout() {
  if (std::cout.flush()) return;
  const int reason = errno;
  std::string remedy = "send it to a file or a terminal that can be written";
  if (reason == ENOSPC || reason == EDQUOT) remedy = "free some space there, or send it elsewhere";
  throw Error(ErrorKind::kUsage,
              {.what = "cannot write the result" +
                       (reason ? ": " + std::generic_category().message(reason) : std::string()),
               .where = "stdout",
               .remedy = remedy});
}

int at_command(const std::string& name, const std::function<int()>& call) {
  try {
    return call();
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw error.at("command 'sluice " + name + "'");
  }
}

int run_program(const Command& program, const std::vector<std::string>& arguments,
                const std::vector<std::string>& extra_options) {
  CLI::App app(program.help, program.name);
  try {
    app.formatter(std::make_shared<HelpFormatter>());
    app.set_help_flag("-h,--help", "Prints this help and exits.");
    describe_to(app, program);
    std::vector<std::string> words = with_empty_values(arguments);
    std::reverse(words.begin(), words.end());  // CLI11 takes arguments from the back
    errno = 0;
    int code = 0;
    try {
      app.parse(std::move(words));
      code = run_chosen(app, program);
    } catch (const CLI::Success& success) {
      code = app.exit(success);
    }
    finish_stdout();
    return code;
  } catch (const CLI::ParseError& error) {
    return report_error(std::make_exception_ptr(describe(app, error, extra_options)));
  } catch (...) {
    return report_error(std::current_exception());
  }
}

}  // namespace sluice
