// An LD_PRELOAD library that intercepts a program's calls to the file system. It numbers and logs
// the calls on paths below one folder. It can kill the process or make a call fail at a given
// number.
//
// It intercepts the libc functions that create, write, sync, rename and remove files. It does not
// see memory maps, nor calls that libc makes internally (fflush, fclose, closedir). To check that
// no call was missed, play the log with file_system_model.h.
//
// Environment of the watched program; nothing is watched without FAULT_PRELOAD_FOLDER:
//
//   FAULT_PRELOAD_FOLDER=DIR     absolute, without links: calls on DIR and below count, from 1
//   FAULT_PRELOAD_LOG=FILE       one line per call (see Call); written bytes go to FILE.data
//   FAULT_PRELOAD_KILL=N         SIGKILL to the process instead of call N
//   FAULT_PRELOAD_FAIL=N:EIO     call N fails; "N+:EIO": all calls from N on. ENOSPC and EDQUOT
//                                apply only to calls that allocate space. A close() that fails
//                                still closes the file.
//   FAULT_PRELOAD_SHORT=N        call N writes half of its bytes
//   FAULT_PRELOAD_STOP=N:FILE    call N waits until FILE exists
//   FAULT_PRELOAD_NO_EXCHANGE=1  exchanging two names fails, as on many network file systems
//   FAULT_PRELOAD_READS=1        also counts reads and opening a file for reading
//
// Counted calls run one at a time, so the log has the order of their effects: when call N starts,
// exactly the calls before N have completed. Calls outside the folder pass through unchanged.
// Each process counts from 1; exec() starts a new count.
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

namespace {

// ---- the real calls ----
// We use system call numbers, because dlsym(RTLD_NEXT) would call the libc that we are replacing.

long real_openat(int at, const char* path, int flags, mode_t mode) {
  return syscall(SYS_openat, at, path, flags, mode);
}
long real_close(int descriptor) { return syscall(SYS_close, descriptor); }
long real_write(int descriptor, const void* bytes, std::size_t count) {
  return syscall(SYS_write, descriptor, bytes, count);
}
long real_pwrite(int descriptor, const void* bytes, std::size_t count, off_t offset) {
  return syscall(SYS_pwrite64, descriptor, bytes, count, offset);
}
long real_renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  return syscall(SYS_renameat2, from_at, from, to_at, to, flags);
}
long real_unlinkat(int at, const char* path, int flags) {
  return syscall(SYS_unlinkat, at, path, flags);
}

// ---- settings ----

const char* setting(const char* name) {
  const char* const value = getenv(name);
  return value && *value ? value : nullptr;
}

// Parses "12:rest" and "12+:rest". `call` is 0 without a value.
struct At {
  long call = 0;
  bool onwards = false;
  std::string rest;
};

At read_at(const char* name) {
  At at;
  const char* const value = setting(name);
  if (!value) return at;
  char* end = nullptr;
  at.call = strtol(value, &end, 10);
  at.onwards = *end == '+';
  if (at.onwards) ++end;
  if (*end == ':') at.rest = end + 1;
  return at;
}

int error_named(const std::string& name) {
  static constexpr std::array<std::pair<const char*, int>, 8> kErrors = {{{"EIO", EIO},
                                                                          {"ENOSPC", ENOSPC},
                                                                          {"EDQUOT", EDQUOT},
                                                                          {"EROFS", EROFS},
                                                                          {"EINTR", EINTR},
                                                                          {"EINVAL", EINVAL},
                                                                          {"EACCES", EACCES},
                                                                          {"ESTALE", ESTALE}}};
  for (const auto& [known, number] : kErrors) {
    if (name == known) return number;
  }
  std::fprintf(stderr, "fault_preload: FAULT_PRELOAD_FAIL: unknown error '%s'\n", name.c_str());
  _exit(127);
}

// Moves the log to a descriptor number that the watched program does not expect.
int open_log(const std::string& path) {
  const long low =
      real_openat(AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
  const int high = low < 0 ? -1 : fcntl(static_cast<int>(low), F_DUPFD_CLOEXEC, 500);
  if (high < 0) {
    std::fprintf(stderr, "fault_preload: cannot write '%s'\n", path.c_str());
    _exit(127);
  }
  real_close(static_cast<int>(low));
  return high;
}

struct Settings {
  std::string folder;
  int log = -1, data = -1;
  At kill, fail, shortened, stop;
  int error = 0;
  bool reads = false, no_exchange = false;

  Settings() {
    const char* const watched = setting("FAULT_PRELOAD_FOLDER");
    if (!watched) return;
    folder = watched;
    if (const char* const path = setting("FAULT_PRELOAD_LOG")) {
      log = open_log(path);
      data = open_log(std::string(path) + ".data");
    }
    kill = read_at("FAULT_PRELOAD_KILL");
    fail = read_at("FAULT_PRELOAD_FAIL");
    if (fail.call > 0) error = error_named(fail.rest);
    shortened = read_at("FAULT_PRELOAD_SHORT");
    stop = read_at("FAULT_PRELOAD_STOP");
    reads = setting("FAULT_PRELOAD_READS") != nullptr;
    no_exchange = setting("FAULT_PRELOAD_NO_EXCHANGE") != nullptr;
  }
};

// Never destroyed, because files may be closed after static objects.
const Settings& settings() {
  static const Settings* const made = new Settings;
  return *made;
}

// ---- which paths and descriptors are watched ----

constexpr int kMaxDescriptors = 1 << 16;
std::array<std::atomic<bool>, kMaxDescriptors> watched_descriptors;

// Also valid after renames. "" if the descriptor has no path.
std::string path_of(int descriptor) {
  char link[64], target[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, target, sizeof target);
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : std::string();
}

std::string working_folder() {
  char path[PATH_MAX];
  return syscall(SYS_getcwd, path, sizeof path) > 0 ? path : "";
}

// Removes "." and ".." without resolving links.
std::string normal(const std::string& path) {
  std::string result;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, slash - at);
    at = slash + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      result.erase(std::min(result.rfind('/'), result.size()));
    } else {
      result += "/" + part;
    }
  }
  return result.empty() ? "/" : result;
}

std::string absolute(int at, const char* path) {
  if (!path || *path == '/') return path ? normal(path) : std::string();
  return normal((at == AT_FDCWD ? working_folder() : path_of(at)) + "/" + path);
}

bool is_watched(const std::string& path) {
  const std::string& folder = settings().folder;
  return !folder.empty() && path.compare(0, folder.size(), folder) == 0 &&
         (path.size() == folder.size() || path[folder.size()] == '/');
}

// libc may have closed and reused the descriptor internally.
bool is_watched(int descriptor) {
  if (descriptor < 0 || descriptor >= kMaxDescriptors) return false;
  std::atomic<bool>& watched = watched_descriptors[static_cast<std::size_t>(descriptor)];
  if (!watched) return false;
  watched = is_watched(path_of(descriptor));
  return watched;
}

void watch(long descriptor, bool watched) {
  if (descriptor >= 0 && descriptor < kMaxDescriptors)
    watched_descriptors[static_cast<std::size_t>(descriptor)] = watched;
}

// Relative to the folder, "." for the folder itself. Other paths are unchanged.
std::string for_log(const std::string& path) {
  const std::size_t length = settings().folder.size();
  if (!is_watched(path)) return path.empty() ? "-" : path;
  return path.size() == length ? "." : path.substr(length + 1);
}

// ---- one call ----

// A call in the log. Tab-separated fields: number, thread, name, descriptor, result, errno (0 for
// none), flags, offset, byte count, offset in the data file (-1: not kept), path, other path ("-"
// for none).
struct Call {
  const char* name;
  int descriptor = -1;
  std::string path, other;
  bool asks_for_space = false;
  long flags = 0, offset = -1;
  std::string bytes;
};

std::mutex one_at_a_time;
long last_number = 0;
long data_written = 0;

void put(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const long count = real_write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(127);
    done += static_cast<std::size_t>(count);
  }
}

void write_down(const Call& call, long number, long result, int error) {
  if (settings().log < 0) return;
  long data_at = -1;
  std::size_t count = 0;
  if (result > 0 && !call.bytes.empty()) {
    count = std::min(static_cast<std::size_t>(result), call.bytes.size());
    data_at = data_written;
    put(settings().data, call.bytes.substr(0, count));
    data_written += static_cast<long>(count);
  }
  std::string line = std::to_string(number) + "\t" + std::to_string(syscall(SYS_gettid)) + "\t" +
                     call.name + "\t" + std::to_string(call.descriptor) + "\t" +
                     std::to_string(result) + "\t" + std::to_string(error) + "\t" +
                     std::to_string(call.flags) + "\t" + std::to_string(call.offset) + "\t" +
                     std::to_string(count) + "\t" + std::to_string(data_at) + "\t" +
                     for_log(call.path) + "\t" + for_log(call.other) + "\n";
  put(settings().log, line);
}

void wait_for(const std::string& file) {
  const timespec pause{0, 2'000'000};
  while (syscall(SYS_faccessat, AT_FDCWD, file.c_str(), F_OK) != 0) nanosleep(&pause, nullptr);
}

bool fails(const Call& call, long number) {
  const Settings& set = settings();
  if (set.fail.call == 0 || number < set.fail.call || (number > set.fail.call && !set.fail.onwards))
    return false;
  return call.asks_for_space || (set.error != ENOSPC && set.error != EDQUOT);
}

// `real(call, halved)` makes the system call and returns its result, or -1 and sets errno.
template <class Real>
long carry_out(Call&& call, Real&& real) {
  const int errno_before = errno;
  const std::lock_guard<std::mutex> hold(one_at_a_time);
  const Settings& set = settings();
  const long number = ++last_number;
  if (number == set.kill.call) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  if (number == set.stop.call) wait_for(set.stop.rest);
  long result = -1;
  int error = set.error;
  if (!fails(call, number)) {
    errno = 0;
    result = real(call, number == set.shortened.call);
    error = result < 0 ? errno : 0;
  } else if (std::strcmp(call.name, "close") == 0) {
    real(call, false);
  }
  write_down(call, number, result, error);
  errno = result < 0 ? error : errno_before;
  return result;
}

// ---- calls by kind ----

int open_file(int at, const char* path, int flags, mode_t mode) {
  const std::string full = settings().folder.empty() ? std::string() : absolute(at, path);
  const bool reads_only = (flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC));
  const bool counts =
      is_watched(full) && (settings().reads || !reads_only || (flags & O_DIRECTORY));
  long result = 0;
  if (!counts) {
    result = real_openat(at, path, flags, mode);
  } else {
    Call call{.name = "open", .path = full, .asks_for_space = (flags & O_CREAT) != 0};
    call.flags = flags;
    result = carry_out(std::move(call), [&](Call& made, bool) {
      made.descriptor = static_cast<int>(real_openat(at, path, flags, mode));
      return static_cast<long>(made.descriptor);
    });
  }
  watch(result, counts);
  return static_cast<int>(result);
}

// An `offset` of -1 means the descriptor's current position.
ssize_t write_bytes(int descriptor, std::string bytes, off_t offset) {
  Call call{.name = "write", .descriptor = descriptor, .path = path_of(descriptor)};
  call.asks_for_space = true;
  call.offset = offset;
  call.bytes = std::move(bytes);
  return carry_out(std::move(call), [&](Call& made, bool halved) {
    const std::size_t count = halved ? (made.bytes.size() + 1) / 2 : made.bytes.size();
    if (offset >= 0) return real_pwrite(descriptor, made.bytes.data(), count, offset);
    const long result = real_write(descriptor, made.bytes.data(), count);
    const int error = errno;
    made.offset = lseek(descriptor, 0, SEEK_CUR) - std::max(result, 0L);
    errno = error;
    return result;
  });
}

// For calls that do not receive the written bytes in memory.
std::string read_back(int descriptor, off_t offset, std::size_t count) {
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const int reader = static_cast<int>(real_openat(AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0));
  std::string bytes(count, '\0');
  const long got = reader < 0 ? -1 : syscall(SYS_pread64, reader, bytes.data(), count, offset);
  if (reader >= 0) real_close(reader);
  if (got != static_cast<long>(count)) {
    std::fprintf(stderr, "fault_preload: cannot read back what was copied\n");
    _exit(127);
  }
  return bytes;
}

// `offset` is the position in the target; nullptr means the descriptor's current position.
template <class Real>
ssize_t copy_bytes(int to, const off_t* offset, std::size_t count, Real&& real) {
  const off_t start = offset ? *offset : lseek(to, 0, SEEK_CUR);
  Call call{.name = "write", .descriptor = to, .path = path_of(to)};
  call.asks_for_space = true;
  call.offset = start;
  return carry_out(std::move(call), [&](Call& made, bool halved) {
    const long result = real(halved ? (count + 1) / 2 : count);
    if (result > 0) made.bytes = read_back(to, start, static_cast<std::size_t>(result));
    return result;
  });
}

template <class Real>
int on_descriptor(const char* name, int descriptor, long argument, bool asks_for_space,
                  Real&& real) {
  if (!is_watched(descriptor)) return static_cast<int>(real());
  Call call{.name = name, .descriptor = descriptor, .path = path_of(descriptor)};
  call.asks_for_space = asks_for_space;
  call.offset = argument;
  return static_cast<int>(carry_out(std::move(call), [&](Call&, bool) { return real(); }));
}

template <class Real>
int on_path(const char* name, int at, const char* path, long flags, bool asks_for_space,
            Real&& real) {
  const std::string full = settings().folder.empty() ? std::string() : absolute(at, path);
  if (!is_watched(full)) return static_cast<int>(real());
  Call call{.name = name, .path = full, .asks_for_space = asks_for_space};
  call.flags = flags;
  return static_cast<int>(carry_out(std::move(call), [&](Call&, bool) { return real(); }));
}

template <class Real>
int on_two_paths(const char* name, int from_at, const char* from, int to_at, const char* to,
                 long flags, Real&& real) {
  std::string full_from, full_to;
  if (!settings().folder.empty()) {
    full_from = absolute(from_at, from);
    full_to = absolute(to_at, to);
  }
  if (!is_watched(full_from) && !is_watched(full_to)) return static_cast<int>(real());
  Call call{.name = name, .path = full_from, .other = full_to, .asks_for_space = true};
  call.flags = flags;
  return static_cast<int>(carry_out(std::move(call), [&](Call&, bool) { return real(); }));
}

int sync_descriptor(const char* name, int descriptor, long number) {
  return on_descriptor(name, descriptor, -1, true, [&] { return syscall(number, descriptor); });
}

int rename_paths(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  return on_two_paths("rename", from_at, from, to_at, to, static_cast<long>(flags), [&]() -> long {
    if (settings().no_exchange && (flags & RENAME_EXCHANGE) != 0) {
      errno = EINVAL;
      return -1;
    }
    return real_renameat2(from_at, from, to_at, to, flags);
  });
}

int remove_path(int at, const char* path, int flags) {
  const bool folder = (flags & AT_REMOVEDIR) != 0;
  return on_path(folder ? "rmdir" : "unlink", at, path, flags, false,
                 [&] { return real_unlinkat(at, path, flags); });
}

int make_folder(int at, const char* path, mode_t mode) {
  return on_path("mkdir", at, path, static_cast<long>(mode), true,
                 [&] { return syscall(SYS_mkdirat, at, path, mode); });
}

int truncate_file(int descriptor, off_t length) {
  return on_descriptor("ftruncate", descriptor, length, true,
                       [&] { return syscall(SYS_ftruncate, descriptor, length); });
}

template <class Real>
ssize_t read_bytes(int descriptor, long offset, Real&& real) {
  if (!settings().reads || !is_watched(descriptor)) return real();
  Call call{.name = "read", .descriptor = descriptor, .path = path_of(descriptor)};
  call.offset = offset;
  return carry_out(std::move(call), [&](Call&, bool) { return real(); });
}

// open() has its mode argument only if it may create a file.
mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

std::string flat(const iovec* parts, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return bytes;
}

std::string text_of(const void* bytes, std::size_t count) {
  return {static_cast<const char*>(bytes), count};
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file(at, path, flags, mode);
}

int openat64(int at, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file(at, path, flags, mode);
}

// Fortified programs call these variants when the flags are not compile-time constants.
int __open_2(const char* path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
int __open64_2(const char* path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char* path, int flags) { return open_file(at, path, flags, 0); }
int __openat64_2(int at, const char* path, int flags) { return open_file(at, path, flags, 0); }

// std::ofstream opens files with these functions. It writes and closes through the functions below.
FILE* fopen(const char* path, const char* mode) {
  int flags = *mode == 'r' ? 0 : O_CREAT | (*mode == 'w' ? O_TRUNC : O_APPEND);
  flags |= std::strchr(mode, '+') ? O_RDWR : (*mode == 'r' ? O_RDONLY : O_WRONLY);
  if (std::strchr(mode, 'x')) flags |= O_EXCL;
  if (std::strchr(mode, 'e')) flags |= O_CLOEXEC;
  const int descriptor = open_file(AT_FDCWD, path, flags, 0666);
  return descriptor < 0 ? nullptr : fdopen(descriptor, mode);
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

int creat(const char* path, mode_t mode) {
  return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char* path, mode_t mode) {
  return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int close(int descriptor) {
  const bool watched = is_watched(descriptor);
  if (!watched) return static_cast<int>(real_close(descriptor));
  return on_descriptor("close", descriptor, -1, false, [&] {
    watch(descriptor, false);
    return real_close(descriptor);
  });
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  if (!is_watched(descriptor)) return real_write(descriptor, bytes, count);
  return write_bytes(descriptor, text_of(bytes, count), -1);
}
ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  if (!is_watched(descriptor)) return real_pwrite(descriptor, bytes, count, offset);
  return write_bytes(descriptor, text_of(bytes, count), offset);
}
ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t offset) {
  if (!is_watched(descriptor)) return real_pwrite(descriptor, bytes, count, offset);
  return write_bytes(descriptor, text_of(bytes, count), offset);
}
ssize_t writev(int descriptor, const iovec* parts, int count) {
  if (!is_watched(descriptor)) return syscall(SYS_writev, descriptor, parts, count);
  return write_bytes(descriptor, flat(parts, count), -1);
}
ssize_t pwritev(int descriptor, const iovec* parts, int count, off_t offset) {
  if (!is_watched(descriptor)) {
    return syscall(SYS_pwritev, descriptor, parts, count, static_cast<long>(offset), 0L);
  }
  return write_bytes(descriptor, flat(parts, count), offset);
}

ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset, size_t count,
                        unsigned flags) {
  const auto real = [&](std::size_t part) {
    return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, part, flags);
  };
  return is_watched(to) ? copy_bytes(to, to_offset, count, real) : real(count);
}

ssize_t sendfile(int to, int from, off_t* from_offset, size_t count) noexcept {
  const auto real = [&](std::size_t part) {
    return syscall(SYS_sendfile, to, from, from_offset, part);
  };
  return is_watched(to) ? copy_bytes(to, nullptr, count, real) : real(count);
}
ssize_t sendfile64(int to, int from, off64_t* from_offset, size_t count) noexcept {
  return sendfile(to, from, from_offset, count);
}

int ftruncate(int descriptor, off_t length) noexcept { return truncate_file(descriptor, length); }
int ftruncate64(int descriptor, off64_t length) noexcept {
  return truncate_file(descriptor, length);
}

int truncate(const char* path, off_t length) noexcept {
  const int descriptor = open_file(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  const int result = truncate_file(descriptor, length);
  const int error = errno;
  close(descriptor);
  errno = error;
  return result;
}
int truncate64(const char* path, off64_t length) noexcept { return truncate(path, length); }

int fsync(int descriptor) { return sync_descriptor("fsync", descriptor, SYS_fsync); }
int fdatasync(int descriptor) { return sync_descriptor("fdatasync", descriptor, SYS_fdatasync); }
int syncfs(int descriptor) noexcept { return sync_descriptor("syncfs", descriptor, SYS_syncfs); }

int rename(const char* from, const char* to) noexcept {
  return rename_paths(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_at, const char* from, int to_at, const char* to) noexcept {
  return rename_paths(from_at, from, to_at, to, 0);
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  return rename_paths(from_at, from, to_at, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept { return make_folder(AT_FDCWD, path, mode); }
int mkdirat(int at, const char* path, mode_t mode) noexcept { return make_folder(at, path, mode); }

// libc's mkdtemp() calls mkdir() internally, which we could not intercept.
char* mkdtemp(char* path) noexcept {
  char* const drawn = path + std::strlen(path) - 6;
  static std::atomic<std::uint64_t> last{static_cast<std::uint64_t>(getpid()) * 2654435761u};
  do {
    std::uint64_t bits = last += 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 6; ++i, bits /= 26) drawn[i] = static_cast<char>('a' + bits % 26);
    if (make_folder(AT_FDCWD, path, 0700) == 0) return path;
  } while (errno == EEXIST);
  return nullptr;
}

int unlink(const char* path) noexcept { return remove_path(AT_FDCWD, path, 0); }
int unlinkat(int at, const char* path, int flags) noexcept { return remove_path(at, path, flags); }
int rmdir(const char* path) noexcept { return remove_path(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  struct stat status;
  const bool folder = lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
  return remove_path(AT_FDCWD, path, folder ? AT_REMOVEDIR : 0);
}

int link(const char* from, const char* to) noexcept {
  return on_two_paths("link", AT_FDCWD, from, AT_FDCWD, to, 0,
                      [&] { return syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0); });
}
int linkat(int from_at, const char* from, int to_at, const char* to, int flags) noexcept {
  return on_two_paths("link", from_at, from, to_at, to, flags,
                      [&] { return syscall(SYS_linkat, from_at, from, to_at, to, flags); });
}
int symlink(const char* target, const char* path) noexcept {
  const std::string full = settings().folder.empty() ? std::string() : absolute(AT_FDCWD, path);
  const auto real = [&] { return syscall(SYS_symlinkat, target, AT_FDCWD, path); };
  if (!is_watched(full)) return static_cast<int>(real());
  Call call{.name = "symlink", .path = full, .other = target, .asks_for_space = true};
  return static_cast<int>(carry_out(std::move(call), [&](Call&, bool) { return real(); }));
}

ssize_t read(int descriptor, void* bytes, size_t count) {
  return read_bytes(descriptor, -1, [&] { return syscall(SYS_read, descriptor, bytes, count); });
}
ssize_t pread(int descriptor, void* bytes, size_t count, off_t offset) {
  return read_bytes(descriptor, offset,
                    [&] { return syscall(SYS_pread64, descriptor, bytes, count, offset); });
}
ssize_t pread64(int descriptor, void* bytes, size_t count, off64_t offset) {
  return pread(descriptor, bytes, count, offset);
}

}  // extern "C"
