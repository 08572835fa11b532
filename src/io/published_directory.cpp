#include "io/published_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "io/step_name.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIncomplete = ".sluice-incomplete";
constexpr const char* kTemporary = ".tmp-";
constexpr const char* kAside = ".old-";
constexpr const char* kKept = ".kept-";

[[noreturn]] void fail(const std::string& what, const std::string& path, int error_number) {
  throw file_error(ErrorKind::kCheckpoint, what, path, error_number);
}

// Returns for example "step-00000100" for ".step-00000100.tmp-...". Returns "" for names of other
// kinds, except `own`.
std::string original_name(const std::string& name, const std::string& kind,
                          const std::string& own) {
  const std::size_t at = name.rfind(kind);
  if (!name.starts_with('.') || at == std::string::npos) return {};
  const std::string behind = name.substr(1, at - 1);
  return behind == own || step_of_name(behind) ? behind : std::string();
}

// Returns -1 if another process has the lock, or if the file system has no locks.
int lock_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

// Returns 0 or an errno.
int create_directory(const std::string& path, std::vector<std::string>& made) {
  std::error_code ignored;
  if (::mkdir(path.c_str(), 0777) != 0) {
    const int error_number = errno;
    return error_number == EEXIST && fs::is_directory(path, ignored) ? 0 : error_number;
  }
  made.push_back(path);
  sync_directory(parent_directory(path));
  return 0;
}

void create_directories(const std::string& path, std::vector<std::string>& made) {
  int failed = create_directory(path, made);
  const std::string parent = parent_directory(path);
  if (failed == ENOENT && parent != path) {
    create_directories(parent, made);
    // Try only once: "." of a removed working directory exists, but nothing can be created in it.
    failed = create_directory(path, made);
  }
  if (failed != 0) fail("cannot create directory", path, failed);
}

void sync_folders_of(const std::string& path) {
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const bool is_folder = it->is_directory(error);
    if (error) break;
    if (is_folder) sync_directory(it->path());
  }
  if (error) fail("cannot list the folder", path, error.value());
}

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) fail("cannot create directory", path, errno);
}

std::string path_of_entry(std::string folder, std::string_view name) {
  folder += '/';
  return folder += name;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

void clean_hidden(const std::string& folder, const std::string& name, const std::string& own) {
  const std::string temporary = original_name(name, kTemporary, own),
                    aside = original_name(name, kAside, own);
  if (temporary.empty() && aside.empty()) return;
  const std::string path = path_of_entry(folder, name);
  const int lock = lock_directory(path);
  if (lock < 0) return;
  std::error_code ignored;
  if (!aside.empty() && !exists(path_of_entry(folder, aside))) {
    fs::rename(path, path_of_entry(folder, aside), ignored);
  } else {
    fs::remove_all(path, ignored);
  }
  ::close(lock);
}

// Removes a half-written folder. The marker file kIncomplete goes last: if the power fails before
// that, the next run sees the marker and knows that the remaining files may be removed. An empty
// folder may stay.
void remove_incomplete(const std::string& path) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    if (it->path().filename() != kIncomplete) files.push_back(it->path());
  for (const fs::path& file : files) fs::remove_all(file, error);
  try {
    sync_directory(path);
  } catch (const Error&) {
    return;  // the next save removes the directory
  }
  fs::remove(path + "/" + kIncomplete, error);
  fs::remove(path, error);
}

// Removes the marker and flushes the removal before other files are removed.
void remove_marker(const std::string& path, const DirectoryKind& kind) {
  if (::unlink((path + "/" + kind.marker).c_str()) != 0) {
    if (errno == ENOENT) return;
    fail("cannot remove the marker", path, errno);
  }
  sync_directory(path);
}

void clean_incomplete(const std::string& path, const DirectoryKind& kind) {
  const std::string incomplete = path + "/" + kIncomplete;
  std::error_code ignored;
  const bool empty =
      fs::is_directory(fs::symlink_status(path, ignored)) && fs::is_empty(path, ignored);
  if (!exists(incomplete) && !empty) return;
  const int lock = lock_directory(path);
  if (lock < 0) return;
  if (kind.is_committed(path)) {
    fs::remove(incomplete, ignored);
  } else if (holds_only(path, kind.is_ours)) {
    remove_incomplete(path);
  }
  ::close(lock);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename());
  return names;
}

void clean_up(const std::string& folder, const std::string& own, const DirectoryKind& kind) {
  for (const std::string& name : names_in(folder)) {
    if (name.starts_with('.')) {
      clean_hidden(folder, name, own);
    } else if (name == own || step_of_name(name)) {
      clean_incomplete(path_of_entry(folder, name), kind);
    }
  }
}

}  // namespace

void restore_moved_steps(const std::string& folder) {
  for (const std::string& name : names_in(folder)) {
    const std::string step = original_name(name, kAside, {});
    if (!step.empty() && !exists(path_of_entry(folder, step))) clean_hidden(folder, name, {});
  }
}

void clean_steps(const std::string& folder, const DirectoryKind& kind) {
  clean_up(folder, {}, kind);
}

std::vector<std::string> make_folders(const std::string& path) {
  std::vector<std::string> made;
  create_directories(path, made);
  return made;
}

void ensure_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    fail("cannot create directory", path, errno);
}

bool is_unfinished(const std::string& path) { return exists(path + "/" + kIncomplete); }

void rename_to_kept(const std::string& path) {
  rename_path(path, path + kKept + unique_suffix());
  sync_directory(parent_directory(path));
}

bool holds_only(const std::string& path, bool (*is_ours)(std::string_view file)) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return false;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    if (fs::is_directory(it->symlink_status(error)) && it.depth() == 0) continue;
    const std::string file = it->path().lexically_relative(path);
    if (!fs::is_regular_file(it->symlink_status(error))) return false;
    if (file != kIncomplete && !is_ours(file)) return false;
  }
  return !error;
}

void remove_published(const std::string& path, Commit commit, const DirectoryKind& kind) {
  if (commit == Commit::kRename) {
    const std::string doomed =
        parent_directory(path) + "/." + base_name(path) + kTemporary + unique_suffix();
    rename_path(path, doomed);
    sync_directory(parent_directory(path));
    std::error_code error;
    fs::remove_all(doomed, error);
    if (error && exists(doomed)) fail("cannot remove", doomed, error.value());
    return;
  }
  // If the process ends during the removal, the next save removes the rest. A full disk may prevent
  // the file kIncomplete.
  try {
    if (!exists(path + "/" + kIncomplete)) write_text(path + "/" + kIncomplete, "");
  } catch (const Error&) {
  }
  sync_directory(path);
  remove_marker(path, kind);
  remove_incomplete(path);
}

PublishedDirectory::PublishedDirectory(std::string path, Commit commit, DirectoryKind kind)
    : path_(std::move(path)), commit_(commit), kind_(kind) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  folder_ = parent_directory(path_);
  make_folders(folder_);
  // Clean up before making a new directory, which clean_up() would remove while unlocked. In marker
  // mode, this also removes a killed save with the same name.
  clean_up(folder_, base_name(path_), kind_);
  if (commit_ == Commit::kRename) {
    begin_rename();
  } else {
    begin_marker();
  }
  lock_ = lock_directory(working_);
}

void PublishedDirectory::begin_rename() {
  working_ = folder_ + "/." + base_name(path_) + kTemporary + unique_suffix();
  make_directory(working_);
}

void PublishedDirectory::begin_marker() {
  if (exists(path_)) {
    const bool committed = kind_.is_committed(path_);
    if (committed || is_unfinished(path_)) {
      throw Error(ErrorKind::kCheckpoint,
                  {.what = committed ? "the directory is committed already"
                                     : "another process writes to the directory",
                   .where = path_,
                   .remedy = "choose another folder, or remove this one: with commit = \"marker\" "
                             "nothing is replaced"});
    }
    rename_to_kept(path_);
  }
  working_ = path_;
  make_directory(working_);
  write_text(working_ + "/" + kIncomplete, "");
  sync_directory(working_);
}

PublishedDirectory::~PublishedDirectory() {
  if (!published_) {
    std::error_code ignored;
    if (commit_ == Commit::kMarker) {
      try {
        remove_marker(working_, kind_);
        remove_incomplete(working_);
      } catch (const Error&) {  // the next save removes the directory
      }
    } else {
      fs::remove_all(working_, ignored);
    }
  }
  if (lock_ >= 0) ::close(lock_);
}

// Returns 0 or an errno.
int PublishedDirectory::exchange() const {
  const int failed =
      ::renameat2(AT_FDCWD, working_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE);
  return failed == 0 ? 0 : errno;
}

void PublishedDirectory::move_aside(const std::string& aside) {
  rename_path(path_, aside);
  if (std::rename(working_.c_str(), path_.c_str()) != 0) {
    const int error_number = errno;
    rename_path(aside, path_);
    fail("cannot rename to '" + path_ + "'", working_, error_number);
  }
}

// Gives the directory its name. Returns the older directory's new path, or "".
std::string PublishedDirectory::take_name() {
  if (!exists(path_)) {
    rename_path(working_, path_);
    return {};
  }
  if (!holds_only(path_, kind_.is_ours)) {
    std::string kept = path_ + kKept + unique_suffix();
    move_aside(kept);
    return kept;
  }
  const int failed = exchange();
  if (failed == 0) return working_;
  if (failed != EINVAL && failed != ENOSYS && failed != EXDEV)
    fail("cannot exchange with '" + path_ + "'", working_, failed);
  // Without atomic exchange, rename twice. If the process ends in between, clean_up() restores the
  // old directory.
  std::string aside = folder_ + "/." + base_name(path_) + kAside + unique_suffix();
  move_aside(aside);
  return aside;
}

// Restores the old directory, because the new one may not be on disk.
void PublishedDirectory::give_name_back(const std::string& older) {
  std::error_code ignored;
  if (older == working_) {
    if (exchange() != 0) published_ = true;
    return;
  }
  fs::rename(path_, working_, ignored);
  if (!older.empty()) fs::rename(older, path_, ignored);
}

void PublishedDirectory::publish(const std::string& marker_text) {
  std::error_code ignored;
  sync_folders_of(working_);
  if (commit_ == Commit::kMarker) {
    sync_directory(working_);
    sync_directory(folder_);
    write_text(working_ + "/" + kind_.marker, marker_text);
    sync_directory(working_);
    published_ = true;
    // if it fails, the next save removes the file
    fs::remove(working_ + "/" + kIncomplete, ignored);
    return;
  }
  write_text(working_ + "/" + kind_.marker, marker_text);
  sync_directory(working_);
  const std::string older = take_name();
  try {
    sync_directory(folder_);
  } catch (...) {
    give_name_back(older);
    try {
      sync_directory(folder_);  // flush before the destructor removes new files
    } catch (const Error&) {
      published_ = true;  // After a power loss either name may exist, so keep both.
    }
    throw;
  }
  published_ = true;
  if (older.starts_with(folder_ + "/.")) fs::remove_all(older, ignored);
}

}  // namespace sluice::io
