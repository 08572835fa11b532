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

  // Logs a warning for each file whose size or modification time changed. Checks up to kMostLooks
  // files per call. Thread-safe.
  void look();

 private:
  struct State {
    std::int64_t size = 0, seconds = 0, nanoseconds = 0;  // -1 if the file is missing
    friend bool operator==(const State&, const State&) = default;
  };
  static State state_of(const std::string& path);

  std::mutex looking_;
  std::vector<std::pair<std::string, State>> files_;
  std::size_t next_ = 0;
};

}  // namespace sluice::data
