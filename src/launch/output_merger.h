// Forwards the processes' output to the terminal and log files. Lines written within 100 ms are not
// torn apart. Lines that start with "sluice: error: " or "sluice: warning: " are shown once, even
// if several processes write them; logs contain everything.
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
  // `anew` replaces an existing file. Throws Error(kUsage).
  static std::shared_ptr<Log> open_log(const std::string& path, bool anew);

  // Returns the write end of a pipe for the child; the caller closes it. `show`: descriptor 1 or 2,
  // or -1 for none. Without `as_lines`, bytes pass unchanged.
  int add(int show, bool as_lines, std::shared_ptr<Log> log);
  // Call after the last add().
  void start();
  // Returns when every child has closed its pipe, or after `patience`.
  void finish(std::chrono::milliseconds patience);
  // Call after finish().
  bool has_shown_error() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
