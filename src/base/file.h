// Files whose errors name the path, and the steps of an atomic publish. Threads may read a File
// concurrently, but not write.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice {

std::string errno_text(int error_number);

enum class Access { kRead, kWrite };

enum class Links { kFollow, kRefuse };

enum class LfsPointers { kRefuse, kTake };

Error file_error(ErrorKind kind, const std::string& what, const std::string& path, int error_number,
                 Access access = Access::kWrite);

class File {
 public:
  // Errors about the file have kind `kind`. A Git LFS pointer (a text in place of the content) is
  // an error by default.
  static File open(const std::string& path, ErrorKind kind = ErrorKind::kInput,
                   Links links = Links::kFollow, LfsPointers pointers = LfsPointers::kRefuse);
  // Throws if `path` exists, even as a broken link. The umask decides the mode.
  static File create(const std::string& path, ErrorKind kind = ErrorKind::kCheckpoint);
  // A file without a name in $TMPDIR or /tmp, which is gone when it is closed. Errors name `path`.
  static File temporary(const std::string& path, ErrorKind kind = ErrorKind::kInput);

  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  std::uint64_t size() const;

  void read(void* buffer, std::size_t count, std::uint64_t offset) const;
  // Returns less than `count` only at the end of the file.
  std::size_t read_some(void* buffer, std::size_t count, std::uint64_t offset) const;
  void write(const void* buffer, std::size_t count, std::uint64_t offset);
  void sync();
  // Throws if a delayed write has failed.
  void close();

 private:
  File(int descriptor, std::string path, ErrorKind kind, Access access);
  [[noreturn]] void fail(const std::string& what, int error_number) const;

  int descriptor_;
  std::string path_;
  ErrorKind kind_;
  Access access_;
};

// Throws Error(kind) if the file is missing, unreadable, not regular or longer than max_bytes.
std::string read_text(const std::string& path, std::size_t max_bytes,
                      ErrorKind kind = ErrorKind::kInput, Links links = Links::kFollow);
// Also reads devices and pipes such as `<(...)` until they are closed. Throws if no data arrives
// for kLongestPause.
std::string read_text_or_pipe(const std::string& path, std::size_t max_bytes, ErrorKind kind);
inline constexpr std::chrono::seconds kLongestPause{2};

// Creates and syncs a file. Not atomic: a crash may leave a part.
void write_text(const std::string& path, const std::string& text);

int write_all(int descriptor, std::string_view text);
// Atomically replaces `path`. Returns 0, or an errno with `path` unchanged. The umask decides the
// default mode.
int replace_file(const std::string& path, std::string_view text, std::optional<mode_t> mode = {});

// Makes renames and creations in `directory` durable.
void sync_directory(const std::string& directory);
void rename_path(const std::string& from, const std::string& to);
std::string parent_directory(const std::string& path);
std::string base_name(const std::string& path);
// 16 random hexadecimal digits to name temporary files, jobs and runs. Runs of one name could
// remove each other's checkpoints.
std::string unique_suffix();

}  // namespace sluice
