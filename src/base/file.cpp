#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/text.h"

namespace sluice {
namespace {

// Linux transfers at most 0x7ffff000 bytes per call. Smaller pieces react to signals sooner.
constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

// Discards SIGXFSZ, which a write beyond `ulimit -f` raises before it fails with EFBIG, and which
// would end the process.
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

// Retries calls that a signal interrupted, as on network and user-space file systems.
template <class Call>
int uninterrupted(const Call& call) {
  int result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

struct Descriptor {
  int number;
  ~Descriptor() { ::close(number); }
};

Error not_regular(const std::string& path, ErrorKind kind, mode_t mode) {
  return Error(kind, {.what = "not a regular file",
                      .where = path,
                      .remedy = S_ISDIR(mode) ? "it is a folder: name a file in it"
                                              : "name a file, or a link to one"});
}

// First lines of a Git LFS pointer, a text of at most 1024 bytes
// (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md). The second form is from before 2014.
constexpr std::string_view kLfsVersions[] = {"version https://git-lfs.github.com/spec/",
                                             "version https://hawser.github.com/spec/"};
constexpr std::uint64_t kMaxLfsPointer = 1024;

void refuse_lfs_pointer(const File& file, ErrorKind kind) {
  if (file.size() >= kMaxLfsPointer) return;
  std::string text(static_cast<std::size_t>(kMaxLfsPointer), '\0');
  text.resize(file.read_some(text.data(), text.size(), 0));
  const bool is_pointer =
      std::any_of(std::begin(kLfsVersions), std::end(kLfsVersions),
                  [&](std::string_view version) { return text.starts_with(version); });
  if (!is_pointer) return;
  throw Error(kind,
              {.what = "a Git LFS pointer: run git lfs pull",
               .where = file.path(),
               .remedy = "the content was not downloaded with the repository (before the first "
                         "time: git lfs install)"});
}

[[noreturn]] void fail_checkpoint(const std::string& what, const std::string& path,
                                  int error_number) {
  throw file_error(ErrorKind::kCheckpoint, what, path, error_number);
}

}  // namespace

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

Error file_error(ErrorKind kind, const std::string& what, const std::string& path, int error_number,
                 Access access) {
  const bool written = access == Access::kWrite;
  std::string remedy;
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      remedy = "free some space there, or choose another folder";
      break;
    case EFBIG:
      remedy = "raise the limit (ulimit -f), or choose another folder";
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
      remedy = written ? "choose another folder: this one is gone, or takes no new files"
                       : "check the path";
      break;
    case ENXIO:  // a socket
      remedy = "name a regular file";
      break;
    case EISDIR:
      remedy = "a folder is where the file should be: move it away";
      break;
    case ELOOP:
      remedy = "a symbolic link leads back to itself: mend it";
      break;
    case EMFILE:
    case ENFILE:
      remedy = "raise the limit (ulimit -n)";
      break;
    case EIO:
    case ESTALE:
      remedy = "look at the disk or the network file system";
      break;
    default:
      break;
  }
  return Error(kind,
               {.what = what + ": " + errno_text(error_number), .where = path, .remedy = remedy});
}

File::File(int descriptor, std::string path, ErrorKind kind, Access access)
    : descriptor_(descriptor), path_(std::move(path)), kind_(kind), access_(access) {}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      kind_(other.kind_),
      access_(other.access_) {}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::fail(const std::string& what, int error_number) const {
  throw file_error(kind_, what, path_, error_number, access_);
}

File File::open(const std::string& path, ErrorKind kind, Links links, LfsPointers pointers) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (links == Links::kRefuse ? O_NOFOLLOW : 0);
  const int descriptor = uninterrupted([&] { return ::open(path.c_str(), flags); });
  if (descriptor < 0 && errno == ELOOP && links == Links::kRefuse) {
    throw Error(kind, {.what = "a symbolic link, not a file",
                       .where = path,
                       .remedy = "put the file itself in its place"});
  }
  File file(descriptor, path, kind, Access::kRead);
  if (descriptor < 0) file.fail("cannot open file", errno);
  struct stat status;
  if (::fstat(descriptor, &status) != 0) file.fail("cannot inspect file", errno);
  if (!S_ISREG(status.st_mode)) throw not_regular(path, kind, status.st_mode);
  if (pointers == LfsPointers::kRefuse) refuse_lfs_pointer(file, kind);
  return file;
}

File File::create(const std::string& path, ErrorKind kind) {
  const int descriptor = uninterrupted([&] {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  });
  File file(descriptor, path, kind, Access::kWrite);
  if (descriptor < 0) file.fail("cannot create file", errno);
  return file;
}

File File::temporary(const std::string& path, ErrorKind kind) {
  const char* const folder = std::getenv("TMPDIR");
  std::string name = (folder && *folder ? std::string(folder) : "/tmp") + "/sluice-XXXXXX";
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  File file(descriptor, path, kind, Access::kWrite);
  if (descriptor < 0) file.fail("cannot create a temporary file " + name, errno);
  ::unlink(name.c_str());
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
    throw Error(kind_, {.what = formatted("the file ends at byte {}, but needs {} bytes", size(),
                                          offset + count),
                        .where = path_,
                        .remedy = "it was truncated, maybe while it was being read"});
  }
}

void File::write(const void* buffer, std::size_t count, std::uint64_t offset) {
  if (::lseek(descriptor_, static_cast<off_t>(offset), SEEK_SET) < 0)
    fail("cannot write file", errno);
  const int failed = write_all(descriptor_, {static_cast<const char*>(buffer), count});
  if (failed != 0) fail("cannot write file", failed);
}

void File::sync() {
  if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0)
    fail("cannot sync file to disk", errno);
}

void File::close() {
  // After EINTR, Linux has closed the descriptor.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR)
    fail("cannot close file", errno);
}

namespace {

// Ignores the file's size: files in /proc report 0, and others may grow.
std::string read_to_end(const std::string& path, std::size_t max_bytes, ErrorKind kind,
                        const std::function<ssize_t(char* buffer, std::size_t count)>& read_some) {
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  for (;;) {
    const ssize_t count = read_some(block.data(), block.size());
    if (count == 0) return text;
    if (count < 0) throw file_error(kind, "cannot read file", path, errno, Access::kRead);
    text.append(block.data(), static_cast<std::size_t>(count));
    if (text.size() > max_bytes) {
      throw Error(kind, {.what = "the file is larger than " +
                                 human_bytes(static_cast<std::int64_t>(max_bytes)),
                         .where = path,
                         .remedy = "is it the right file?"});
    }
  }
}

ssize_t read_pipe(int descriptor, char* buffer, std::size_t count, const std::string& path,
                  ErrorKind kind) {
  const auto pause = std::chrono::milliseconds(kLongestPause);
  for (;;) {
    pollfd wanted{descriptor, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(pause.count()));
    if (ready == 0) {
      throw Error(
          kind,
          {.what = formatted("nothing was written to the pipe within {} s", kLongestPause.count()),
           .where = path,
           .remedy = "name a regular file, or first start the program that writes to it"});
    }
    const ssize_t got = ready < 0 ? -1 : ::read(descriptor, buffer, count);
    if (got >= 0 || (errno != EINTR && errno != EAGAIN)) return got;
  }
}

}  // namespace

std::string read_text(const std::string& path, std::size_t max_bytes, ErrorKind kind, Links links) {
  const File file = File::open(path, kind, links);
  std::uint64_t offset = 0;
  return read_to_end(path, max_bytes, kind, [&](char* buffer, std::size_t count) {
    const std::size_t got = file.read_some(buffer, count, offset);
    offset += got;
    return static_cast<ssize_t>(got);
  });
}

std::string read_text_or_pipe(const std::string& path, std::size_t max_bytes, ErrorKind kind) {
  struct stat status;
  const bool is_stream =
      ::stat(path.c_str(), &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode));
  if (!is_stream) return read_text(path, max_bytes, kind);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) throw file_error(kind, "cannot open file", path, errno, Access::kRead);
  const Descriptor closed_at_end{descriptor};
  return read_to_end(path, max_bytes, kind, [&](char* buffer, std::size_t count) {
    return read_pipe(descriptor, buffer, count, path, kind);
  });
}

void write_text(const std::string& path, const std::string& text) {
  File file = File::create(path);
  file.write(text.data(), text.size(), 0);
  file.sync();
  file.close();
}

int write_all(int descriptor, std::string_view text) {
  const FileSizeSignalHold hold;
  while (!text.empty()) {
    const ssize_t put = ::write(descriptor, text.data(), std::min(text.size(), kMaxTransfer));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    if (put == 0) return ENOSPC;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

int replace_file(const std::string& path, std::string_view text, std::optional<mode_t> mode) {
  const std::string temporary = path + ".tmp-" + unique_suffix();
  const int descriptor =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  int failed = mode && ::fchmod(descriptor, *mode) != 0 ? errno : 0;
  if (failed == 0) failed = write_all(descriptor, text);
  if (::close(descriptor) != 0 && failed == 0) failed = errno;
  if (failed == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) failed = errno;
  if (failed != 0) ::unlink(temporary.c_str());
  return failed;
}

void sync_directory(const std::string& directory) {
  const int descriptor =
      uninterrupted([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) fail_checkpoint("cannot open directory", directory, errno);
  const int result = uninterrupted([&] { return ::fsync(descriptor); });
  const int error_number = errno;
  ::close(descriptor);
  // EINVAL: some network file systems cannot sync directories, but order metadata themselves.
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
  // Random, because processes in different containers may have the same process id.
  std::random_device source;
  const std::uint64_t bits = (std::uint64_t{source()} << 32) | source();
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string suffix;
  for (int shift = 60; shift >= 0; shift -= 4) suffix += kDigits[(bits >> shift) & 15];
  return suffix;
}

}  // namespace sluice
