#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "sluice/error.h"

namespace sluice {
namespace {

constexpr mode_t kNewFile = 0666;

// 0, or the errno of what failed. Closes `descriptor`.
int write_and_close(int descriptor, const std::string& text) {
  int failed = 0;
  for (std::size_t done = 0; failed == 0 && done < text.size();) {
    const ssize_t put = ::write(descriptor, text.data() + done, text.size() - done);
    if (put >= 0) done += static_cast<std::size_t>(put);
    if (put < 0 && errno != EINTR) failed = errno;
  }
  if (::close(descriptor) != 0 && failed == 0) failed = errno;
  return failed;
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

mode_t mode_of_new_file() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return kNewFile & ~mask;
}

int replace(const std::string& path, const std::string& text, mode_t mode) {
  std::string temporary = path + ".XXXXXX";
  const int descriptor = ::mkstemp(temporary.data());
  if (descriptor < 0) return errno;
  int failed = ::fchmod(descriptor, mode) == 0 ? 0 : errno;
  const int written = write_and_close(descriptor, text);
  if (failed == 0) failed = written;
  if (failed == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) failed = errno;
  if (failed != 0) ::unlink(temporary.c_str());
  return failed;
}

std::string remedy_of(int failed, const std::string& option) {
  switch (failed) {
    case ENOSPC:
    case EDQUOT:
      return "free some space there, or give " + option + " another folder";
    case ENOENT:
    case ENOTDIR:
      return "make its folder first, or give " + option + " another one";
    case EISDIR:
      return "give " + option + " the name of a file";
    default:
      return "give " + option + " a file in a folder that you may write to";
  }
}

}  // namespace

void write_output_file(const std::string& path, const std::string& text,
                       const std::string& option) {
  // Beyond `ulimit -f` the write shall fail with EFBIG, not end the process.
  std::signal(SIGXFSZ, SIG_IGN);
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
    // What a link points to is replaced, not the link.
    std::error_code unresolved;
    const std::string resolved = std::filesystem::weakly_canonical(path, unresolved).string();
    const std::string target = unresolved || path.ends_with('/') ? path : resolved;
    failed = replace(target, text, exists ? status.st_mode & 07777 : mode_of_new_file());
  }
  if (failed != 0) {
    throw Error(ErrorKind::kUsage,
                "cannot write the file: " + std::generic_category().message(failed), path,
                remedy_of(failed, option));
  }
}

}  // namespace sluice
