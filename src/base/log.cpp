#include "base/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest_name.h"
#include "base/printable.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"debug", "info", "warning", "error"};

std::atomic<LogLevel> least_level{LogLevel::kInfo};

struct Output {
  std::mutex mutex;
  LogSink sink;
  std::vector<std::string> warnings;
};

Output& output() {
  static auto* const never_destroyed = new Output;  // threads may outlive static objects
  return *never_destroyed;
}

void write_to_stderr(LogLevel level, std::string_view message) {
  std::string line = "sluice: ";
  // Messages may quote names and file contents.
  line.append(to_text(level)).append(": ").append(printable_lines(message)).append("\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void keep_warning(std::vector<std::string>& warnings, std::string_view message) {
  constexpr std::size_t kMost = 64;
  if (warnings.size() < kMost && std::ranges::find(warnings, message) == warnings.end())
    warnings.emplace_back(message);
}

void say(LogLevel level, std::string_view message) {
  if (!logs(level)) return;
  const std::lock_guard lock(output().mutex);
  if (level == LogLevel::kWarning) keep_warning(output().warnings, message);
  output().sink ? output().sink(level, message) : write_to_stderr(level, message);
}

}  // namespace

std::string_view to_text(LogLevel level) { return kNames.at(static_cast<std::size_t>(level)); }

LogLevel log_level(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  throw Error(
      ErrorKind::kUsage,
      {.what = "unknown log level '" + std::string(name) + "'",
       .remedy = suggest_name(name, std::vector<std::string>(kNames.begin(), kNames.end()))});
}

void set_log_level(LogLevel least) { least_level = least; }
bool logs(LogLevel level) { return level >= least_level.load(); }

void set_log_sink(LogSink sink) {
  const std::lock_guard lock(output().mutex);
  output().sink = std::move(sink);
}

void log_debug(std::string_view message) { say(LogLevel::kDebug, message); }
void log_info(std::string_view message) { say(LogLevel::kInfo, message); }
void log_warning(std::string_view message) { say(LogLevel::kWarning, message); }
void log_error(std::string_view message) { say(LogLevel::kError, message); }

std::vector<std::string> logged_warnings() {
  const std::lock_guard lock(output().mutex);
  return output().warnings;
}

}  // namespace sluice
