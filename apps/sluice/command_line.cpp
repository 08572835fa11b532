#include "command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>
#include <system_error>

#include "base/as_error.h"
#include "base/text.h"
#include "sluice/parts/told_elsewhere.h"
#include "sluice/plan.h"

namespace sluice {
namespace {

// One blank line between groups, not two.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
    return text;
  }
};

// The innermost subcommand that was named.
CLI::App& selected(CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : selected(*chosen.front());
}

std::string full_name(const CLI::App& app) {
  const std::string own = app.get_name();
  return app.get_parent() ? full_name(*app.get_parent()) + " " + own : own;
}

std::string place_of(const CLI::App& app) { return "command '" + full_name(app) + "'"; }

// The app, of those that were named, that was given what it does not know; else the innermost.
const CLI::App& with_rest(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() || !app.remaining().empty() ? app : with_rest(*chosen.front());
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
    if (option->get_group() == kNotBuiltGroup) continue;
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
      return Error(ErrorKind::kUsage, {.what = "unknown option '" + option + "'",
                                       .where = place_of(app),
                                       .remedy = "did you mean '" + extra + "'?"});
    }
  }
  const std::string near = nearest_name(option, names);
  std::string remedy = near.empty() ? suggest_name(option, own) : "did you mean '" + near + "'?";
  if (near.empty() && !extra_options.empty()) {
    remedy += ", or a key as --section.key VALUE: see 'sluice config reference'";
  }
  return Error(
      ErrorKind::kUsage,
      {.what = "unknown option '" + option + "'", .where = place_of(app), .remedy = remedy});
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
  const CLI::App& at = with_rest(app);
  const std::vector<std::string> commands = command_names(at);
  const std::vector<std::string> rest = at.remaining();
  // Options before the command are those of the program; what follows belongs to the command.
  if (!rest.empty()) {
    const std::string& first = rest.front();
    if (first.size() > 1 && first.front() == '-') return unknown_option(at, first, extra_options);
    if (!commands.empty()) {
      return Error(ErrorKind::kUsage, {.what = "unknown command '" + first + "'",
                                       .where = place_of(at),
                                       .remedy = suggest_name(first, commands)});
    }
    return Error(ErrorKind::kUsage, {.what = "unexpected argument '" + first + "'",
                                     .where = place_of(at),
                                     .remedy = "see '" + full_name(at) + " --help'"});
  }
  if (!commands.empty() && at.get_subcommands().empty() && error.get_name() == "RequiredError") {
    return Error(
        ErrorKind::kUsage,
        {.what = "no command given", .where = place_of(at), .remedy = suggest_name("", commands)});
  }
  return Error(ErrorKind::kUsage, {.what = fact_of(error),
                                   .where = place_of(at),
                                   .remedy = "see '" + full_name(at) + " --help'"});
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

void begin_process() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is this one. Read only: what is written to a closed stream is an
    // error.
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDONLY);
  }
  std::signal(SIGXFSZ, SIG_IGN);
  // Requests to save and to write flight records wait until a run can take them (StopSignal,
  // FlightSignal), across exec.
  sigset_t requests;
  sigemptyset(&requests);
  sigaddset(&requests, SIGUSR1);
  sigaddset(&requests, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &requests, nullptr);
}

void prepare_app(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Prints this help and exits.");
}

CLI::Option* add_count(CLI::App& app, const std::string& option, const std::string& help,
                       std::int64_t min, std::int64_t max,
                       const std::function<void(std::int64_t)>& set) {
  const auto read = [&app, option, min, max, set](const std::string& text) {
    std::int64_t count = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, count);
    if (error != std::errc() || rest != end || count < min || count > max) {
      throw Error(ErrorKind::kUsage, {.what = "'" + text + "' is not a value of " + option,
                                      .where = place_of(app),
                                      .remedy = "give a whole number from " + std::to_string(min) +
                                                " to " + std::to_string(max)});
    }
    set(count);
  };
  return app.add_option_function<std::string>(option, read, help)->type_name("INT");
}

CLI::Option* add_config_file(CLI::App& app, std::string& file, const std::string& help) {
  const auto set = [&app, &file](const std::string& name) {
    if (name.empty()) {
      throw Error(ErrorKind::kUsage, {.what = "the name of the configuration is empty",
                                      .where = place_of(app),
                                      .remedy = "name a .toml file"});
    }
    file = name;
  };
  return app.add_option_function<std::string>("CONFIG", set, help);
}

void add_not_built(CLI::App& app, const std::string& option, const std::string& help,
                   const std::string& instead) {
  const auto refuse = [&app, option, instead](const std::vector<std::string>&) {
    throw Error(ErrorKind::kUsage, {.what = "the option " + option + " is not built yet",
                                    .where = place_of(app),
                                    .remedy = instead});
  };
  app.add_option_function<std::vector<std::string>>(option, refuse, help)
      ->expected(0, 1)
      ->type_name("")
      ->group(kNotBuiltGroup);
}

int report_error(const std::exception_ptr& thrown) {
  const Error error = as_error(thrown);
  std::string line = error.what();
  std::cout.flush();
  std::fflush(stdout);
  try {
    std::rethrow_exception(thrown);
  } catch (const ToldElsewhere&) {
    return error.exit_code();
  } catch (const RefusedSchedule& refused) {
    const GridOptions options{use_color(STDERR_FILENO), terminal_width(STDERR_FILENO)};
    std::fputs(draw_violations(refused.program(), refused.report(), options).c_str(), stderr);
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

void at_command(const std::string& name, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw error.at("command 'sluice " + name + "'");
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
    return report_error(std::make_exception_ptr(describe(app, error, extra_options)));
  } catch (...) {
    return report_error(std::current_exception());
  }
}

}  // namespace sluice
