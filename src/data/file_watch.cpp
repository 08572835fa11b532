#include "data/file_watch.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/log.h"

namespace sluice::data {

FileWatch::State FileWatch::state_of(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return {-1, -1, -1};
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

FileWatch::FileWatch(const std::vector<std::string>& files) {
  for (const std::string& path : files) files_.emplace_back(path, state_of(path));
}

void FileWatch::look() {
  const std::lock_guard lock(looking_);
  for (std::size_t i = std::min(files_.size(), kMostLooks); i > 0; --i) {
    if (next_ >= files_.size()) next_ = 0;
    const State now = state_of(files_[next_].first);
    // A missing file needs no warning: the step that reads it throws.
    if (now == State{-1, -1, -1} || now == files_[next_].second) {
      ++next_;
      continue;
    }
    log_warning(files_[next_].first +
                " changed while the run reads it: later rows may differ, and resuming fails with "
                "other data; leave data files alone during a run");
    files_.erase(files_.begin() + static_cast<std::ptrdiff_t>(next_));
  }
}

}  // namespace sluice::data
