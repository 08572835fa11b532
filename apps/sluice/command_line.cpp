#include "command_line.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <new>
#include <system_error>

#include "base/text.h"
#include "sluice/plan.h"

namespace sluice {
namespace {

// The innermost subcommand that was named.
CLI::App& selected(CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : selected(*chosen.front());
}

std::string full_name(const CLI::App& app) {
  const std::string own = app.get_name();
  return app.get_parent() ? full_name(*app.get_parent()) + " " + own : own;
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

Error unknown_option(const CLI::App& app, std::string option,
                     const std::vector<std::string>& extra_options) {
  option = option.substr(0, option.find('='));
  std::vector<std::string> names = option_names(app);
  const std::vector<std::string> own = names;
  names.insert(names.end(), extra_options.begin(), extra_options.end());
  // "--steps" is most likely the key "--training.steps".
  for (const std::string& extra : extra_options) {
    const std::size_t dot = extra.find('.');
    if (option.size() > 2 && dot != std::string::npos &&
        extra.substr(dot + 1) == option.substr(2)) {
      return Error(ErrorKind::kUsage, "unknown option '" + option + "'",
                   "command '" + full_name(app) + "'", "did you mean '" + extra + "'?");
    }
  }
  const std::string near = nearest_name(option, names);
  std::string remedy = near.empty() ? suggest_name(option, own) : "did you mean '" + near + "'?";
  if (near.empty() && !extra_options.empty()) {
    remedy += ", or a key as --section.key VALUE: see 'sluice config reference'";
  }
  return Error(ErrorKind::kUsage, "unknown option '" + option + "'",
               "command '" + full_name(app) + "'", remedy);
}

// "Could not convert: --pp = x" -> "'x' is not a value of --pp".
std::string fact_of(const CLI::ParseError& error) {
  const std::string text = error.what(), before = "Could not convert: ", equals = " = ";
  const std::size_t at = text.find(equals);
  if (!text.starts_with(before) || at == std::string::npos) return text;
  return "'" + text.substr(at + equals.size()) + "' is not a value of " +
         text.substr(before.size(), at - before.size());
}

Error describe(CLI::App& app, const CLI::ParseError& error,
               const std::vector<std::string>& extra_options) {
  const CLI::App& at = selected(app);
  const std::vector<std::string> commands = command_names(at);
  const std::vector<std::string> rest = at.remaining();
  // Options before the command are those of the program; what follows belongs to the command.
  if (!rest.empty()) {
    const std::string& first = rest.front();
    if (first.size() > 1 && first.front() == '-') return unknown_option(at, first, extra_options);
    if (!commands.empty()) {
      return Error(ErrorKind::kUsage, "unknown command '" + first + "'",
                   "command '" + full_name(at) + "'", suggest_name(first, commands));
    }
    return Error(ErrorKind::kUsage, "unexpected argument '" + first + "'",
                 "command '" + full_name(at) + "'", "see '" + full_name(at) + " --help'");
  }
  if (!commands.empty() && at.get_subcommands().empty() && error.get_name() == "RequiredError") {
    return Error(ErrorKind::kUsage, "no command given", "command '" + full_name(at) + "'",
                 suggest_name("", commands));
  }
  return Error(ErrorKind::kUsage, fact_of(error), "command '" + full_name(at) + "'",
               "see '" + full_name(at) + " --help'");
}

// CLI11 takes the argument after "--name=" for its value; to us the value is empty.
std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  for (const std::string& argument : arguments) {
    const bool no_value = argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    result.push_back(no_value ? argument.substr(0, argument.size() - 1) : argument);
    if (no_value) result.emplace_back();
  }
  return result;
}

}  // namespace

int report_error(const std::exception& error) {
  int code = static_cast<int>(ErrorKind::kInternal);
  std::string line = error.what();
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    code = known->exit_code();
  } else if (dynamic_cast<const std::bad_alloc*>(&error)) {
    code = static_cast<int>(ErrorKind::kMemory);
    line = "out of memory; use fewer ranks, stages or microbatches";
  } else {
    std::replace(line.begin(), line.end(), '\n', ' ');
    line = "internal: " + line;
  }
  std::cout.flush();
  std::fflush(stdout);
  if (const auto* refused = dynamic_cast<const RefusedSchedule*>(&error)) {
    const GridOptions options{use_color(STDERR_FILENO), terminal_width(STDERR_FILENO)};
    std::fputs(draw_violations(refused->program(), refused->report(), options).c_str(), stderr);
  }
  std::fprintf(stderr, "sluice: error: %s\n", line.c_str());
  return code;
}

void finish_stdout() {
  if (std::cout.flush()) return;
  const int reason = errno;
  std::string remedy = "send it to a file or a terminal that can be written";
  if (reason == ENOSPC || reason == EDQUOT) remedy = "free some space there, or send it elsewhere";
  throw Error(ErrorKind::kUsage,
              "cannot write the result" +
                  (reason ? ": " + std::generic_category().message(reason) : std::string()),
              "stdout", remedy);
}

void at_command(const std::string& name, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw Error(error.kind(), error.fact(), "command 'sluice " + name + "'", error.remedy());
  }
}

int run_app(CLI::App& app, std::vector<std::string> arguments, const int& exit_code,
            const std::vector<std::string>& extra_options) {
  try {
    arguments = with_empty_values(arguments);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    errno = 0;
    int code = 0;
    try {
      app.parse(std::move(arguments));
      code = exit_code;
    } catch (const CLI::Success& success) {
      code = app.exit(success);
    }
    finish_stdout();
    return code;
  } catch (const CLI::ParseError& error) {
    return report_error(describe(app, error, extra_options));
  } catch (const std::exception& error) {
    return report_error(error);
  }
}

}  // namespace sluice
