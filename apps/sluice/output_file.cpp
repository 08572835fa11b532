#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/file.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;

// Returns 0, or errno after a failure.
int write_and_close(int descriptor, const std::string& text) {
  const int failed = write_all(descriptor, text);
  return ::close(descriptor) != 0 && failed == 0 ? errno : failed;
}

int write_directly(const std::string& path, const std::string& text) {
  // check_kinds: followed_link: /dev/stdout is a link; the caller refuses regular files.
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  return descriptor < 0 ? errno : write_and_close(descriptor, text);
}

// Returns the descriptor of stdout or stderr if `file` is the same file, such as one that the shell
// opened for appending, or else -1.
int open_output(const struct stat& file) {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own;
    if (::fstat(descriptor, &own) == 0 && own.st_dev == file.st_dev && own.st_ino == file.st_ino)
      return descriptor;
  }
  return -1;
}

std::string remedy_of(int failed, const std::string& option) {
  switch (failed) {
    case ENOSPC:
    case EDQUOT:
      return "free some space there, or give " + option + " another folder";
    case EFBIG:
      return "raise the limit (ulimit -f)";
    case ENOENT:
    case ENOTDIR:
      return "make its folder first, or give " + option + " another one";
    case EISDIR:
      return "give " + option + " the name of a file";
    default:
      return "give " + option + " a file in a folder that you may write to";
  }
}

Error cannot_write(int failed, const std::string& path, const std::string& option) {
  return {ErrorKind::kUsage,
          {.what = "cannot write the file: " + errno_text(failed),
           .where = path,
           .remedy = remedy_of(failed, option)}};
}

// Rejects links to other folders, because another user's folder may contain a link to this user's
// files.
std::string file_to_replace(const std::string& path, const std::string& option) {
  std::error_code failed;
  if (!fs::is_symlink(fs::symlink_status(path, failed))) return path;
  // weakly_canonical() does not resolve a link to a missing file.
  fs::path target = path;
  for (int links = 0; links < kMostLinks && fs::is_symlink(fs::symlink_status(target, failed));
       ++links)
    target =
        fs::canonical(parent_directory(target.string()), failed) / fs::read_symlink(target, failed);
  if (fs::is_symlink(fs::symlink_status(target, failed))) target.clear();
  if (!target.empty()) target = fs::weakly_canonical(target, failed);
  const fs::path folder = fs::canonical(parent_directory(path), failed);
  if (!target.empty() && target.parent_path() == folder) return target.string();
  throw Error(ErrorKind::kUsage,
              {.what = target.empty() ? "the file is a symbolic link that leads nowhere"
                                      : "the file is a symbolic link to '" + target.string() +
                                            "', outside of its folder",
               .where = option + " " + path,
               .remedy = "name the file that the link leads to, or remove the link"});
}

// Whether to write in place, without a temporary file. False for a named pipe, whose opening would
// block until another program reads it.
bool is_written_directly(const std::string& path, const struct stat& status) {
  const bool is_open = path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
  return S_ISCHR(status.st_mode) || (S_ISFIFO(status.st_mode) && is_open) ||
         open_output(status) >= 0;
}

}  // namespace

void check_output_file(const std::string& path, const std::string& option) {
  struct stat status;
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (path.empty() || path.ends_with('/') || (exists && S_ISDIR(status.st_mode)))
    throw cannot_write(EISDIR, path, option);
  if (exists && !S_ISREG(status.st_mode)) {
    if (is_written_directly(path, status)) return;
    throw Error(ErrorKind::kUsage, {.what = "not a regular file",
                                    .where = path,
                                    .remedy = "give " + option + " a file, or /dev/stdout"});
  }
  if (exists && open_output(status) >= 0) return;
  std::string probe = parent_directory(file_to_replace(path, option)) + "/.sluice-probe-XXXXXX";
  if (::mkdtemp(probe.data()) == nullptr) throw cannot_write(errno, path, option);
  ::rmdir(probe.c_str());
}

void write_output_file(const std::string& path, const std::string& text,
                       const std::string& option) {
  struct stat status;
  const bool exists = ::stat(path.c_str(), &status) == 0;
  const int output = exists ? open_output(status) : -1;
  int failed = 0;
  if (output >= 0) {
    const int descriptor = ::dup(output);
    failed = descriptor < 0 ? errno : write_and_close(descriptor, text);
  } else if (exists && !S_ISREG(status.st_mode)) {
    failed = is_written_directly(path, status) ? write_directly(path, text)
             : S_ISDIR(status.st_mode)         ? EISDIR
                                               : EINVAL;
  } else {
    failed = replace_file(path.ends_with('/') ? path : file_to_replace(path, option), text,
                          exists ? std::optional<mode_t>(status.st_mode & 07777) : std::nullopt);
  }
  if (failed != 0) throw cannot_write(failed, path, option);
}

void replace_own_file(const std::string& path, const std::string& text, const std::string& option) {
  struct stat status;
  const bool is_file = ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  const int failed = replace_file(
      path, text, is_file ? std::optional<mode_t>(status.st_mode & 07777) : std::nullopt);
  if (failed != 0) throw cannot_write(failed, path, option);
}

}  // namespace sluice
