// The thread-safe log. sluice/error.h sets its level and sink.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/error.h"

namespace sluice {

// log_level() throws Error(kUsage) for unknown words.
std::string_view to_text(LogLevel level);
LogLevel log_level(std::string_view name);

bool logs(LogLevel level);

void log_debug(std::string_view message);
void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

// The first 64 different warnings, oldest first.
std::vector<std::string> logged_warnings();

}  // namespace sluice
