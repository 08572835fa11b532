// What both programs (sluice, sluice-run) do with a command line: parse, and turn every failure
// into one line on stderr and the exit code of docs/exit-codes.md.
//
// Owns: the mapping of CLI11's errors and of sluice::Error. Does not own: the commands.
// Thread-safety: for the main thread.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace sluice {

// Parses `arguments` (without the program's name) and runs the callbacks of `app`. Help goes to
// stdout. `extra_options` are accepted names that CLI11 does not know ("--training.steps"), for the
// nearest name of an unknown option. Returns the process exit code: `exit_code` after a success.
int run_app(CLI::App& app, std::vector<std::string> arguments, const int& exit_code,
            const std::vector<std::string>& extra_options = {});

// Runs `call`; an error that names no place is given "command 'sluice NAME'": rules know options,
// not commands.
void at_command(const std::string& name, const std::function<void()>& call);

// Flushes stdout. Throws Error(kUsage) with the system's reason when what was printed since errno
// was last 0 could not be written; so set errno = 0 before printing.
void finish_stdout();

// "sluice: error: WHAT; WHERE; HOW TO MEND IT" on stderr. Returns the exit code of the exception;
// out of memory is 7 and anything unknown is 1.
int report_error(const std::exception& error);

}  // namespace sluice
