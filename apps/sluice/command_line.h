// The command line of both programs (sluice, sluice-run): parses it, and turns every failure into
// one line on stderr and the exit code of docs/failures.md.
//
// Owns: CLI11, which no other source sees; the mapping of its errors and of sluice::Error. Does not
// own: the commands (command.h).
// Thread-safety: for the main thread.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "command.h"

namespace sluice {

// Called first by main(): makes closed stdin, stdout and stderr /dev/null, so that no file of ours
// gets their numbers (printing there fails, as before), and makes a file that grows beyond `ulimit
// -f` an error of the write, not the end of the process.
void begin_process();

// Parses `arguments` (without the program's name) and runs the command that they name. Help goes to
// stdout. `extra_options` are accepted names that are not options of a command
// ("--training.steps"), for the nearest name of an unknown option. Returns the process exit code.
int run_program(const Command& program, const std::vector<std::string>& arguments,
                const std::vector<std::string>& extra_options = {});

// Runs `call`; an error that names no place is given "command 'sluice NAME'": rules know options,
// not commands.
int at_command(const std::string& name, const std::function<int()>& call);

// Flushes stdout. Throws Error(kUsage) with the system's reason when what was printed since errno
// was last 0 could not be written; so set errno = 0 before printing.
void finish_stdout();

// "sluice: error: WHAT; WHERE; HOW TO MEND IT" on stderr, a line for each of an ErrorList. Returns
// the exit code of what was thrown; out of memory is 7 and anything unknown is 1.
int report_error(const std::exception_ptr& thrown);

}  // namespace sluice
