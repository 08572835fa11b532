#include "io/step_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "io/step_name.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what, const std::string& path, int error_number) {
  throw file_error(ErrorKind::kCheckpoint, what, path, error_number);
}

// ".step-00000100.tmp-..." -> "step-00000100"; "" for any other name.
std::string step_of(const std::string& name, const std::string& kind) {
  if (!name.starts_with(".step-")) return {};
  const std::size_t end = name.find_first_not_of("0123456789", 6);
  if (end == 6 || end == std::string::npos || name.compare(end, kind.size(), kind) != 0) return {};
  return name.substr(1, end - 1);
}

// flock() on the directory; -1 when another process holds it or the file system has no locks.
int lock_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

// 0 also where it is there already, else the errno.
int create_directory(const std::string& path) {
  std::error_code ignored;
  if (::mkdir(path.c_str(), 0777) != 0) {
    const int error_number = errno;
    return error_number == EEXIST && fs::is_directory(path, ignored) ? 0 : error_number;
  }
  sync_directory(parent_directory(path));
  return 0;
}

void create_directories(const std::string& path) {
  int failed = create_directory(path);
  const std::string parent = parent_directory(path);
  if (failed == ENOENT && parent != path) {
    create_directories(parent);
    // Once: in a working folder that was removed "." is there, and takes nothing.
    failed = create_directory(path);
  }
  if (failed != 0) fail("cannot create directory", path, failed);
}

// What killed runs left: temporary directories go; a directory that was moved aside comes back
// unless its successor is there.
void clean_up(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    const std::string temporary = step_of(name, ".tmp-"), aside = step_of(name, ".old-");
    if (temporary.empty() && aside.empty()) continue;
    const std::string path = folder + "/" + name;
    const int lock = lock_directory(path);
    if (lock < 0) continue;
    std::error_code ignored;
    if (!aside.empty() && !fs::exists(folder + "/" + aside, ignored)) {
      fs::rename(path, folder + "/" + aside, ignored);
    } else {
      fs::remove_all(path, ignored);
    }
    ::close(lock);
  }
}

}  // namespace

StepDirectory::StepDirectory(std::string folder, std::int64_t step, IsOurs is_ours)
    : folder_(std::move(folder)), is_ours_(is_ours) {
  while (folder_.size() > 1 && folder_.ends_with('/')) folder_.pop_back();
  create_directories(folder_);
  clean_up(folder_);
  final_ = folder_ + "/" + step_name(step);
  temporary_ = folder_ + "/." + step_name(step) + ".tmp-" + unique_suffix();
  if (::mkdir(temporary_.c_str(), 0777) != 0) fail("cannot create directory", temporary_, errno);
  lock_ = lock_directory(temporary_);
}

StepDirectory::~StepDirectory() {
  std::error_code ignored;
  if (!published_) fs::remove_all(temporary_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

bool StepDirectory::holds_only_ours(const std::string& path) const {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return false;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (!is_ours_(it->path().filename()) || it->is_directory(error)) return false;
  }
  return !error;
}

void StepDirectory::move_aside(const std::string& aside) {
  rename_path(final_, aside);
  if (std::rename(temporary_.c_str(), final_.c_str()) != 0) {
    const int error_number = errno;
    rename_path(aside, final_);
    fail("cannot rename to '" + final_ + "'", temporary_, error_number);
  }
}

// Returns what to remove once the new directory is on disk, "" for nothing.
std::string StepDirectory::replace() {
  if (!holds_only_ours(final_)) {
    move_aside(final_ + ".kept-" + unique_suffix());
    return {};
  }
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, final_.c_str(), RENAME_EXCHANGE) == 0)
    return temporary_;
  if (errno != EINVAL && errno != ENOSYS && errno != EXDEV) {
    fail("cannot exchange with '" + final_ + "'", temporary_, errno);
  }
  // This file system exchanges no names. The old directory, moved aside, comes back by clean_up()
  // if the process ends here.
  const std::string aside = folder_ + "/." + base_name(final_) + ".old-" + unique_suffix();
  move_aside(aside);
  return aside;
}

void StepDirectory::publish() {
  sync_directory(temporary_);
  std::string replaced;
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(final_, ignored))) {
    replaced = replace();
  } else {
    rename_path(temporary_, final_);
  }
  published_ = true;
  sync_directory(folder_);
  if (!replaced.empty()) fs::remove_all(replaced, ignored);
}

}  // namespace sluice::io
