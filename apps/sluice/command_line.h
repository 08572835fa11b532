// Parses and runs the command lines of sluice and sluice-run. Failures become one line on stderr
// and an exit code (docs/failures.md). Call these functions from the main thread.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "command.h"

namespace sluice {

// Must be called first. Opens /dev/null in place of a closed stdin, stdout or stderr, so that no
// other file gets its descriptor. Makes writes beyond `ulimit -f` fail instead of ending the
// process.
void begin_process();

// Parses `arguments` (without the program's name) and runs the named command. `extra_options` are
// further names to suggest for an unknown option.
int run_program(const Command& program, const std::vector<std::string>& arguments,
                const std::vector<std::string>& extra_options = {});

// Runs `call` and adds "command 'sluice NAME'" to errors without a place.
int at_command(const std::string& name, const std::function<int()>& call);

// Throws Error(kUsage) if output to stdout failed. Set errno = 0 before printing, because the
// message gets its reason from errno.
void finish_stdout();

// Prints "sluice: error: WHAT; WHERE; REMEDY" to stderr, one line per error of an ErrorList.
// Returns the exit code, which is 7 if out of memory and 1 for an unknown exception.
int report_error(const std::exception_ptr& thrown);

}  // namespace sluice
