// Defines sluice's exception, Error, and its log, whose functions are thread-safe.
#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice {

// The value is the exit code of the process (docs/failures.md).
enum class ErrorKind : int {
  kInternal = 1,
  kUsage = 2,
  kInput = 3,
  kCheckpoint = 4,
  kPeer = 5,  // another rank was lost, or a deadline passed
  kNotFinite = 6,
  kMemory = 7,
};

struct ErrorText {
  std::string what;         // what happened, with expected and actual values
  std::string where = {};   // "file:line:column" and field, or "rank 2, instruction 17 '1RECV_B3'"
  std::string remedy = {};  // what to do, such as the nearest valid name
};

// what() is one printable line, "WHAT; WHERE; REMEDY". Control characters become '?', and long
// values are shortened ("abc...xyz").
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, ErrorText text);

  ErrorKind kind() const noexcept { return kind_; }
  int exit_code() const noexcept { return static_cast<int>(kind_); }
  const std::string& fact() const noexcept { return text_.what; }
  const std::string& where() const noexcept { return text_.where; }
  const std::string& remedy() const noexcept { return text_.remedy; }
  Error at(std::string place) const;

 private:
  struct Printable {};
  Error(Printable, ErrorKind kind, ErrorText text);

  ErrorKind kind_;
  ErrorText text_;
};

// ---- log: messages of one line ----

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Sets the lowest logged level (default: kInfo).
void set_log_level(LogLevel least);

// Receives one message at a time, without line end. Must not log. An empty sink restores the
// default: "sluice: warning: MESSAGE" on stderr.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;
void set_log_sink(LogSink sink);

}  // namespace sluice
