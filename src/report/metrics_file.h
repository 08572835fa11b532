// metrics.jsonl of a run: a line for each step that is logged.
//
// Owns: the file, and the lines of an earlier one that a resumed run keeps. Does not own: the
// content of a line (metrics.h), the check that the folder can be written (a run does it before it
// starts). Thread-safety: a MetricsFile belongs to one thread; pure functions, but for the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "report/metrics.h"

namespace sluice {

// FOLDER/metrics.jsonl. A run that starts replaces that of the run before; a run that resumes from
// a checkpoint keeps the lines up to there.
class MetricsFile {
 public:
  static std::string path_in(const std::string& folder);
  // Bytes: a longer line is none of a run. Parameter norms of a large model take a few hundred
  // kilobytes.
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;
  // Throws Error(kUsage) when a folder is in the place of the file. Creates nothing.
  static void require_free_place(const std::string& folder);
  // Creates the folder and a new file, which takes the name in one step: with the whole lines of
  // the steps up to last_step of the file that is there, in their order, each step once (0: empty).
  // Warns of lines that it drops. Throws Error(kUsage), and leaves the old file.
  explicit MetricsFile(const std::string& folder, std::int64_t last_step = 0);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // One line, handed to the system before it returns. Throws Error(kUsage); the file then ends with
  // the line before.
  void append(const StepMetrics& metrics);
  // All lines are on disk when this returns, under the file's name. Throws Error(kUsage).
  void sync();
  // Throws Error(kUsage) unless the file still has its name.
  void require_in_place() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  bool name_is_on_disk_ = false;
};

}  // namespace sluice
