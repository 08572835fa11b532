// Forwards the output of a job's processes to the terminal and to log files. A line that a process
// completes within 100 ms is not mixed with other output. Lines that start with "sluice: error: "
// or "sluice: warning: " are shown once, even if several processes write them; logs contain all of
// them.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace sluice {

class OutputMerger {
 public:
  OutputMerger();
  ~OutputMerger();
  OutputMerger(const OutputMerger&) = delete;
  OutputMerger& operator=(const OutputMerger&) = delete;

  class Log;
  // Opens a log file to append, or replaces it if `anew`. Throws Error(kUsage).
  static std::shared_ptr<Log> open_log(const std::string& path, bool anew);

  // Returns the write end of a pipe for the child; the caller closes it. Output is shown on
  // descriptor `show` (1, 2 or -1 for none). Without `as_lines`, bytes pass unchanged.
  int add(int show, bool as_lines, std::shared_ptr<Log> log);
  // Call after the last add().
  void start();
  // Returns when every process has closed its pipe, or after `patience`.
  void finish(std::chrono::milliseconds patience);
  // Call after finish().
  bool has_shown_error() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
