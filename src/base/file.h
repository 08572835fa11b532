// Files whose errors name the path, and the steps that publish a file atomically. Threads may read
// a File concurrently, but not write to it.
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
  // Opens a file for reading. Later errors about it have kind `kind`, too. By default, throws for a
  // Git LFS pointer, a small text in place of the file's content.
  static File open(const std::string& path, ErrorKind kind = ErrorKind::kInput,
                   Links links = Links::kFollow, LfsPointers pointers = LfsPointers::kRefuse);
  // Creates a file for writing, with the mode that the umask leaves. Throws if `path` exists, even
  // as a broken link.
  static File create(const std::string& path, ErrorKind kind = ErrorKind::kCheckpoint);

  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  std::uint64_t size() const;

  void read(void* buffer, std::size_t count, std::uint64_t offset) const;
  // Returns the number of bytes read, which is below `count` only at the end of the file.
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

// Reads a whole file. Throws Error(kind) if it is missing, unreadable, not regular or longer than
// max_bytes.
std::string read_text(const std::string& path, std::size_t max_bytes,
                      ErrorKind kind = ErrorKind::kInput, Links links = Links::kFollow);
// Like read_text(), but also reads devices and pipes such as `<(...)`, until they are closed.
// Throws if no data arrives for kLongestPause.
std::string read_text_or_pipe(const std::string& path, std::size_t max_bytes, ErrorKind kind);
inline constexpr std::chrono::seconds kLongestPause{2};

// Writes a new file and syncs it. A crash may leave part of the file.
void write_text(const std::string& path, const std::string& text);

int write_all(int descriptor, std::string_view text);
// Atomically replaces `path` by way of a temporary file. Returns 0, or an errno with `path`
// unchanged. Without `mode`, the umask decides.
int replace_file(const std::string& path, std::string_view text, std::optional<mode_t> mode = {});

// Makes renames and creations in `directory` durable.
void sync_directory(const std::string& directory);
void rename_path(const std::string& from, const std::string& to);
std::string parent_directory(const std::string& path);
std::string base_name(const std::string& path);
// Returns 16 random hexadecimal digits for the names of temporary files, jobs and runs. If two runs
// had one name, a save of one could remove checkpoints of the other.
std::string unique_suffix();

}  // namespace sluice
