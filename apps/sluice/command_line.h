// The command line of both programs, sluice and sluice-run. Every failure becomes one line on
// stderr and an exit code of docs/failures.md. Only the implementation includes CLI11. Call these
// functions from the main thread.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "command.h"

namespace sluice {

// main() calls this first. If stdin, stdout or stderr is closed, opens /dev/null there, so that
// none of our files gets its number. Exceeding `ulimit -f` makes writes fail instead of ending the
// process.
void begin_process();

// Parses `arguments` (without the program's name), runs the named command and returns the exit
// code. `extra_options` are further names such as "--training.steps" to suggest for an unknown
// option.
int run_program(const Command& program, const std::vector<std::string>& arguments,
                const std::vector<std::string>& extra_options = {});

// Runs `call` and adds "command 'sluice NAME'" to errors without a place.
int at_command(const std::string& name, const std::function<int()>& call);

// Flushes stdout. Throws Error(kUsage) with the system's reason if any output failed. Set errno = 0
// before printing, because the reason is taken from errno.
void finish_stdout();

// Prints "sluice: error: WHAT; WHERE; REMEDY" to stderr, one line per error of an ErrorList.
// Returns the exit code: 7 if out of memory, 1 for an unknown exception.
int report_error(const std::exception_ptr& thrown);

}  // namespace sluice
