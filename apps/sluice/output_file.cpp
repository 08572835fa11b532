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

// 0, or the errno of what failed. Closes `descriptor`.
int write_and_close(int descriptor, const std::string& text) {
  const int failed = write_all(descriptor, text);
  return ::close(descriptor) != 0 && failed == 0 ? errno : failed;
}

int write_directly(const std::string& path, const std::string& text) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  return descriptor < 0 ? errno : write_and_close(descriptor, text);
}

// stdout or stderr when `file` is where they go (/dev/stdout; maybe a regular file that the shell
// holds open, and appends to), else -1.
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
      return "raise the limit on the size of files (ulimit -f)";
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

// The target of a link: it is replaced, not the link.
std::string target_of(const std::string& path) {
  std::error_code unresolved;
  const std::string resolved = std::filesystem::weakly_canonical(path, unresolved).string();
  return unresolved || path.ends_with('/') ? path : resolved;
}

}  // namespace

void check_output_file(const std::string& path, const std::string& option) {
  struct stat status;
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (path.empty() || path.ends_with('/') || (exists && S_ISDIR(status.st_mode)))
    throw cannot_write(EISDIR, path, option);
  if (exists && !S_ISREG(status.st_mode)) {
    if (S_ISCHR(status.st_mode) || open_output(status) >= 0) return;
    throw Error(ErrorKind::kUsage, {.what = "not a regular file",
                                    .where = path,
                                    .remedy = "give " + option + " a file, or /dev/stdout"});
  }
  std::string probe = parent_directory(target_of(path)) + "/.sluice-probe-XXXXXX";
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
    failed = write_directly(path, text);
  } else {
    failed = replace_file(target_of(path), text,
                          exists ? std::optional<mode_t>(status.st_mode & 07777) : std::nullopt);
  }
  if (failed != 0) throw cannot_write(failed, path, option);
}

}  // namespace sluice
