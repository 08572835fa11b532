// The log: all that the library says besides results and errors, a line at a time.
//
// Does not own: the level of the log, and the sink of its lines (sluice/error.h); errors that end a
// call, what a run prints of itself.
// Thread-safety: every function may be called from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/error.h"

namespace sluice {

// "debug", "info", "warning", "error". log_level throws Error(kUsage) for any other word.
std::string_view to_text(LogLevel level);
LogLevel log_level(std::string_view name);

bool logs(LogLevel level);

void log_debug(std::string_view message);
void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

// The warnings that were said in this process, oldest first: the first 64, each once.
std::vector<std::string> logged_warnings();

}  // namespace sluice
