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

  explicit FileWatch(const std::vector<std::string>& files);

  // Checks up to kMostLooks files per call, and logs a warning for each whose size or modification
  // time has changed. Thread-safe.
  void look();

 private:
  struct State {
    // size and modification time; -1 if the file is missing
    std::int64_t size = 0, seconds = 0, nanoseconds = 0;
    friend bool operator==(const State&, const State&) = default;
  };
  static State state_of(const std::string& path);

  std::mutex looking_;
  std::vector<std::pair<std::string, State>> files_;
  std::size_t next_ = 0;
};

}  // namespace sluice::data
