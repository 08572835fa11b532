#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <random>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

// Linux transfers at most 0x7ffff000 bytes per call; smaller pieces also keep signals timely.
constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

// A write beyond the limit on file sizes (a quota by `ulimit -f`) fails with EFBIG, but first sends
// this thread SIGXFSZ, which ends the process. In this scope the signal is held back and dropped.
class FileSizeSignalHold {
 public:
  FileSizeSignalHold() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalHold() {
    const timespec at_once{};
    while (::sigtimedwait(&signal_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignalHold(const FileSizeSignalHold&) = delete;
  FileSizeSignalHold& operator=(const FileSizeSignalHold&) = delete;

 private:
  sigset_t signal_, before_;
};

[[noreturn]] void fail_checkpoint(const std::string& what, const std::string& path,
                                  int error_number) {
  throw file_error(ErrorKind::kCheckpoint, what, path, error_number);
}

}  // namespace

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

Error file_error(ErrorKind kind, const std::string& what, const std::string& path,
                 int error_number) {
  const bool written = kind != ErrorKind::kInput;
  std::string remedy;
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      remedy = "free some space there, or choose another folder";
      break;
    case EFBIG:
      remedy = "raise the limit on the size of files (ulimit -f), or choose another folder";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      remedy = written ? "choose a folder that you may write to" : "let this user read it";
      break;
    case ENOTDIR:
      remedy = "a file is where a folder should be: choose another path";
      break;
    case ENOENT:
      remedy = written ? "choose another folder: this one is gone, or its file system makes none"
                       : "check the path";
      break;
    case EISDIR:
      remedy = "a folder is where the file should be: move it away";
      break;
    case ELOOP:
      remedy = "a symbolic link leads back to itself: mend it";
      break;
    case EMFILE:
    case ENFILE:
      remedy = "raise the limit on open files (ulimit -n)";
      break;
    case EIO:
    case ESTALE:
      remedy = "look at the disk or the network file system";
      break;
    default:
      break;
  }
  return Error(kind, what + ": " + errno_text(error_number), path, remedy);
}

File::File(int descriptor, std::string path, ErrorKind kind)
    : descriptor_(descriptor), path_(std::move(path)), kind_(kind) {}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      kind_(other.kind_) {}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::fail(const std::string& what, int error_number) const {
  throw file_error(kind_, what, path_, error_number);
}

File File::open(const std::string& path, ErrorKind kind) {
  // O_NONBLOCK: opening a FIFO in place of the file must not wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  File file(descriptor, path, kind);
  if (descriptor < 0) file.fail("cannot open file", errno);
  struct stat status;
  if (::fstat(descriptor, &status) != 0) file.fail("cannot inspect file", errno);
  if (!S_ISREG(status.st_mode))
    throw Error(kind, "not a regular file", path, "name a file, or a link to one");
  return file;
}

File File::create(const std::string& path, ErrorKind kind) {
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  File file(descriptor, path, kind);
  if (descriptor < 0) file.fail("cannot create file", errno);
  return file;
}

std::uint64_t File::size() const {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) fail("cannot inspect file", errno);
  return static_cast<std::uint64_t>(status.st_size);
}

std::size_t File::read_some(void* buffer, std::size_t count, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got =
        ::pread(descriptor_, static_cast<char*>(buffer) + done,
                std::min(count - done, kMaxTransfer), static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read file", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void File::read(void* buffer, std::size_t count, std::uint64_t offset) const {
  const std::size_t got = read_some(buffer, count, offset);
  if (got != count) {
    throw Error(kind_,
                "file ends at byte " + std::to_string(size()) + ", expected at least " +
                    std::to_string(offset + count) + " bytes",
                path_, "it was truncated, maybe while it was being read");
  }
}

void File::write(const void* buffer, std::size_t count, std::uint64_t offset) {
  const FileSizeSignalHold hold;
  std::size_t done = 0;
  while (done < count) {
    const ssize_t put =
        ::pwrite(descriptor_, static_cast<const char*>(buffer) + done,
                 std::min(count - done, kMaxTransfer), static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("cannot write file", errno);
    if (put == 0) fail("cannot write file", ENOSPC);
    done += static_cast<std::size_t>(put);
  }
}

void File::sync() {
  if (::fsync(descriptor_) != 0) fail("cannot sync file to disk", errno);
}

void File::close() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot close file", errno);
}

std::string read_text(const std::string& path, std::uint64_t limit, ErrorKind kind) {
  const File file = File::open(path, kind);
  const std::uint64_t size = file.size();
  if (size > limit) {
    throw Error(kind,
                "file has " + std::to_string(size) + " bytes, at most " + std::to_string(limit) +
                    " are expected",
                path);
  }
  std::string text(size, '\0');
  file.read(text.data(), text.size(), 0);
  return text;
}

void write_text(const std::string& path, const std::string& text) {
  File file = File::create(path);
  file.write(text.data(), text.size(), 0);
  file.sync();
  file.close();
}

void sync_directory(const std::string& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_checkpoint("cannot open directory", directory, errno);
  const int result = ::fsync(descriptor);
  const int error_number = errno;
  ::close(descriptor);
  // Some network file systems cannot sync directories and say EINVAL; they order metadata
  // themselves.
  if (result != 0 && error_number != EINVAL) {
    fail_checkpoint("cannot sync directory to disk", directory, error_number);
  }
}

void rename_path(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    fail_checkpoint("cannot rename to '" + to + "'", from, errno);
}

std::string parent_directory(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string base_name(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string unique_suffix() {
  // Random, not the process id: in containers every process has the same one.
  std::random_device source;
  const std::uint64_t bits = (std::uint64_t{source()} << 32) | source();
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string suffix;
  for (int shift = 60; shift >= 0; shift -= 4) suffix += kDigits[(bits >> shift) & 15];
  return suffix;
}

}  // namespace sluice
