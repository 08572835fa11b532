// File descriptors with errors that name the file, helpers for small files, and the steps of an
// atomic publish. Several threads may read one File at the same time (pread). Only one thread may
// write to it.
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

// For example "No space left on device".
std::string errno_text(int error_number);

enum class Access { kRead, kWrite };

// Whether a symbolic link as the last part of a path is followed or an error.
enum class Links { kFollow, kRefuse };

// Whether a Git LFS pointer in place of the content is an error or read as plain bytes.
enum class LfsPointers { kRefuse, kTake };

// "WHAT: No space left on device" at `path`, with a remedy.
Error file_error(ErrorKind kind, const std::string& what, const std::string& path, int error_number,
                 Access access = Access::kWrite);

class File {
 public:
  // Opens a regular file. All errors about this file have kind `kind`. By default a Git LFS pointer
  // is an error, so that no reader mistakes it for the content.
  static File open(const std::string& path, ErrorKind kind = ErrorKind::kInput,
                   Links links = Links::kFollow, LfsPointers pointers = LfsPointers::kRefuse);
  // Creates a file with the umask's mode. An existing file or link is an error.
  static File create(const std::string& path, ErrorKind kind = ErrorKind::kCheckpoint);

  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  std::uint64_t size() const;

  // Reads exactly `count` bytes. A shorter file is an error.
  void read(void* buffer, std::size_t count, std::uint64_t offset) const;
  // Reads up to `count` bytes. Returns fewer only at the end of the file.
  std::size_t read_some(void* buffer, std::size_t count, std::uint64_t offset) const;
  void write(const void* buffer, std::size_t count, std::uint64_t offset);
  // Flushes data and size to disk.
  void sync();
  // Reports errors of delayed writes.
  void close();

 private:
  File(int descriptor, std::string path, ErrorKind kind, Access access);
  [[noreturn]] void fail(const std::string& what, int error_number) const;

  int descriptor_;
  std::string path_;
  ErrorKind kind_;
  Access access_;
};

// Reads a whole small file. Throws Error(kind) if it is missing, unreadable, not a regular file or
// longer than max_bytes.
std::string read_text(const std::string& path, std::size_t max_bytes,
                      ErrorKind kind = ErrorKind::kInput, Links links = Links::kFollow);
// The same, but also reads pipes such as `<(...)` and devices, until they are closed. Throws if no
// data arrives for kLongestPause.
std::string read_text_or_pipe(const std::string& path, std::size_t max_bytes, ErrorKind kind);
inline constexpr std::chrono::seconds kLongestPause{2};

// Creates, writes and syncs a file. Not atomic: use it inside a directory that is published as a
// whole.
void write_text(const std::string& path, const std::string& text);

// Writes all of `text` at the current position. Returns 0 or an errno.
int write_all(int descriptor, std::string_view text);
// Atomically replaces `path` through a temporary file beside it. Returns 0 or an errno; on failure
// `path` is unchanged. The default mode follows the umask.
int replace_file(const std::string& path, std::string_view text, std::optional<mode_t> mode = {});

// Makes renames and creations in `directory` durable.
void sync_directory(const std::string& directory);
void rename_path(const std::string& from, const std::string& to);
// "." for a name without a slash.
std::string parent_directory(const std::string& path);
std::string base_name(const std::string& path);
// 16 random hexadecimal digits, for unique names.
std::string unique_suffix();

}  // namespace sluice
