// A run's metrics.jsonl, with one line per logged step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "report/metrics.h"

namespace sluice {

// Not thread-safe.
class MetricsFile {
 public:
  static std::string path_in(const std::string& folder);
  // In bytes. Parameter norms of a large model take a few hundred kilobytes.
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;
  // Throws Error(kUsage) if a folder has the file's name.
  static void require_free_place(const std::string& folder);
  // Atomically replaces the file. Keeps complete lines up to last_step, and warns about dropped
  // ones. On Error(kUsage) the old file stays.
  explicit MetricsFile(const std::string& folder, std::int64_t last_step = 0);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // On failure, throws Error(kUsage) and leaves no partial line.
  void append(const StepMetrics& metrics);
  // Writes lines and file name to disk. Throws Error(kUsage).
  void sync();
  // Throws Error(kUsage) if the file was removed or replaced.
  void require_in_place() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  bool name_is_on_disk_ = false;
};

}  // namespace sluice
