// Notices that the files of a data set are written to while a run reads them.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sluice::data {

class FileWatch {
 public:
  static constexpr std::size_t kMostLooks = 256;

  // Remembers the sizes of the files and when they were last written.
  explicit FileWatch(const std::vector<std::string>& files);

  // Logs a warning, once a file, for files that have another size or were written since. Looks at
  // up to kMostLooks files a call, in turn. Any thread may call it.
  void look();

 private:
  struct State {
    std::int64_t size = 0, seconds = 0, nanoseconds = 0;  // -1: the file is not there
    friend bool operator==(const State&, const State&) = default;
  };
  static State state_of(const std::string& path);

  std::mutex looking_;
  std::vector<std::pair<std::string, State>> files_;  // that did not change so far
  std::size_t next_ = 0;
};

}  // namespace sluice::data
