// What both programs (sluice, sluice-run) do with a command line: parse, and turn every failure
// into one line on stderr and the exit code of docs/exit-codes.md.
//
// Owns: the mapping of CLI11's errors and of sluice::Error. Does not own: the commands.
// Thread-safety: for the main thread.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice {

// What main() does first: stdin, stdout and stderr that are closed become /dev/null, so that no
// file of ours gets their numbers (what is printed there fails, as before), and a file that grows
// beyond `ulimit -f` is an error of the write, not the end of the process.
void begin_process();

// The layout of help and `-h,--help`; to be called before anything is added.
void prepare_app(CLI::App& app);

// Parses `arguments` (without the program's name) and runs the callbacks of `app`. Help goes to
// stdout. `extra_options` are accepted names that CLI11 does not know ("--training.steps"), for the
// nearest name of an unknown option. Returns the process exit code: `exit_code` after a success.
int run_app(CLI::App& app, std::vector<std::string> arguments, const int& exit_code,
            const std::vector<std::string>& extra_options = {});

// An option that counts something: a whole number from `min` to `max`, refused with this range.
CLI::Option* add_count(CLI::App& app, const std::string& option, const std::string& help,
                       std::int64_t min, std::int64_t max,
                       const std::function<void(std::int64_t)>& set);
template <typename Integer>
CLI::Option* add_count(CLI::App& app, const std::string& option, std::optional<Integer>& value,
                       const std::string& help, std::int64_t min = 1,
                       std::int64_t max = std::int64_t{1} << 20) {
  return add_count(app, option, help, min, max,
                   [&value](std::int64_t count) { value = static_cast<Integer>(count); });
}

// The argument CONFIG; a name that is given may not be empty.
CLI::Option* add_config_file(CLI::App& app, std::string& file, const std::string& help);

// The group of help for options and commands of docs/command-line.md that nothing acts on yet.
inline constexpr const char* kNotBuiltGroup = "Not built yet";
// Such an option: refused when it is given. `instead` says what to do.
void add_not_built(CLI::App& app, const std::string& option, const std::string& help,
                   const std::string& instead);

// Runs `call`; an error that names no place is given "command 'sluice NAME'": rules know options,
// not commands.
void at_command(const std::string& name, const std::function<void()>& call);

// Flushes stdout. Throws Error(kUsage) with the system's reason when what was printed since errno
// was last 0 could not be written; so set errno = 0 before printing.
void finish_stdout();

// "sluice: error: WHAT; WHERE; HOW TO MEND IT" on stderr. Returns the exit code of what was thrown;
// out of memory is 7 and anything unknown is 1.
int report_error(const std::exception_ptr& thrown);

}  // namespace sluice
