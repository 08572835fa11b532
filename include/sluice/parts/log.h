// What the library has to say besides results and errors: a line at a time.
//
// Owns: the level below which nothing is said, and where lines go (stderr, or a sink of one's own).
// Does not own: errors that end a call (error.h), what a run prints of itself.
// Thread-safety: every function may be called from any thread; a sink is called by one at a time.
#pragma once

#include <functional>
#include <string_view>

namespace sluice {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning", "error". log_level throws Error(kUsage) for any other word.
std::string_view to_text(LogLevel level);
LogLevel log_level(std::string_view name);

// The least that is said; kInfo at first.
void set_log_level(LogLevel least);
bool logs(LogLevel level);

// Takes every message that is said, without a line end. It must not log. An empty one restores the
// first: "sluice: warning: MESSAGE" on stderr, a line in one write.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;
void set_log_sink(LogSink sink);

void log_debug(std::string_view message);
void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

}  // namespace sluice
