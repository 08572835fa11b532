// The output of the processes of a job, on its way to the terminal and to log files.
//
// Owns: pipes, and the thread that empties them. Does not own: the descriptors written to.
//
// Invariants:
//  1. Lines are shown whole if they are written within 100 ms, and a line that starts with "sluice:
//     error: " or "sluice: warning: " is shown once, however many processes write it. Logs have
//     everything.
//  2. A target that cannot be written does not stop the processes: its output is dropped.
// Thread-safety: for one thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace sluice {

class OutputMerger {
 public:
  OutputMerger();
  // The same as finish(1 s).
  ~OutputMerger();
  OutputMerger(const OutputMerger&) = delete;
  OutputMerger& operator=(const OutputMerger&) = delete;

  // A file that what is written to a source is appended to, as well.
  class Log;
  // Throws Error(kUsage) when it cannot be opened. anew: true if it is emptied first.
  static std::shared_ptr<Log> open_log(const std::string& path, bool anew);

  // A new source; the descriptor to give to a process, to be closed here after that. show: 1, 2, or
  // -1 for nowhere. as_lines: else every byte passes at once and unchanged.
  int add(int show, bool as_lines, std::shared_ptr<Log> log);
  // All sources are added: starts.
  void start();
  // Returns when every source has ended, or after `patience`.
  void finish(std::chrono::milliseconds patience);
  // True if an error line was shown. After finish().
  bool has_shown_error() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
