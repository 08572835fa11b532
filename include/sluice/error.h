// The one exception of sluice, the parts of every message, and the log.
//
// Every message has the shape
//   WHAT; WHERE; HOW TO MEND IT
// The functions of the log may be called from any thread.
#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice {

// The enumerator's value is the exit code of the process (docs/failures.md).
enum class ErrorKind : int {
  kInternal = 1,    // a defect of sluice itself
  kUsage = 2,       // command line or configuration
  kInput = 3,       // model, data or schedule file
  kCheckpoint = 4,  // checkpoint could not be read or written
  kPeer = 5,        // another rank was lost, or a deadline passed
  kNotFinite = 6,   // loss or gradient is not finite
  kMemory = 7,      // out of memory
};

// The parts of an error line, given by name: {.what = .., .where = .., .remedy = ..}.
struct ErrorText {
  std::string what;         // the fact, with expected and found values
  std::string where = {};   // file:line:column and field, or "rank 2, instruction 17 '1RECV_B3'"
  std::string remedy = {};  // which knob to turn, the nearest valid name
};

// `what()` is "WHAT; WHERE; REMEDY" without the empty parts, made printable: on one line, without
// control characters (shown as '?'), long values cut in their middle ("abc...xyz").
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, ErrorText text);

  ErrorKind kind() const noexcept { return kind_; }
  int exit_code() const noexcept { return static_cast<int>(kind_); }
  const std::string& fact() const noexcept { return text_.what; }
  const std::string& where() const noexcept { return text_.where; }
  const std::string& remedy() const noexcept { return text_.remedy; }
  // The same fact and remedy at another place.
  Error at(std::string place) const;

 private:
  struct Printable {};  // marks parts that are printable already
  Error(Printable, ErrorKind kind, ErrorText text);

  ErrorKind kind_;
  ErrorText text_;
};

// The candidate with the smallest edit distance to `name` (case ignored), or "" when all are more
// than max(2, length / 3) edits away.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

// "did you mean 'X'?" for the nearest candidate, else "one of: a, b, c". The usual remedy.
std::string suggest_name(std::string_view name, std::span<const std::string> candidates);

// ---- the log: the library's messages besides results and errors, a line at a time ----

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// The lowest level of messages that are logged; kInfo at first.
void set_log_level(LogLevel least);

// The receiver of every logged message, without a line end, one at a time. It must not log. An
// empty sink restores the first one: "sluice: warning: MESSAGE" on stderr, each line in one write.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;
void set_log_sink(LogSink sink);

}  // namespace sluice
