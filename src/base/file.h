// Files: a descriptor with errors that name the file, small files as a whole, and the steps of an
// atomic publish. No torch.
//
// Owns: opening files (never waiting for a pipe), reading, writing (over interruptions, and to the
// limit on file sizes) and replacing them at once. Does not own: their content.
// Thread-safety: reads of one File may run concurrently (pread); writes belong to one thread.
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

// "No space left on device", from errno at the call.
std::string errno_text(int error_number);

enum class Access { kRead, kWrite };

// The treatment of a symbolic link as the last part of a path: it is followed, or an error.
enum class Links { kFollow, kRefuse };

// The treatment of a file that is a Git LFS pointer instead of the content: an error, or plain
// bytes.
enum class LfsPointers { kRefuse, kTake };

// "WHAT: No space left on device" at `path`, with what can be done about it.
Error file_error(ErrorKind kind, const std::string& what, const std::string& path, int error_number,
                 Access access = Access::kWrite);

class File {
 public:
  // A regular file. kind: of every error about this file. A Git LFS pointer is an error by default,
  // so that no reader takes it for the content.
  static File open(const std::string& path, ErrorKind kind = ErrorKind::kInput,
                   Links links = Links::kFollow, LfsPointers pointers = LfsPointers::kRefuse);
  // A new file; an existing one, or a link in its place, is an error. The mode follows the umask.
  static File create(const std::string& path, ErrorKind kind = ErrorKind::kCheckpoint);

  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  std::uint64_t size() const;

  // Exactly `count` bytes; a file that ends before them is an error.
  void read(void* buffer, std::size_t count, std::uint64_t offset) const;
  // Up to `count` bytes; fewer only at the end of the file.
  std::size_t read_some(void* buffer, std::size_t count, std::uint64_t offset) const;
  void write(const void* buffer, std::size_t count, std::uint64_t offset);
  // Data and size on disk.
  void sync();
  // Also reports what a delayed write could not do.
  void close();

 private:
  File(int descriptor, std::string path, ErrorKind kind, Access access);
  [[noreturn]] void fail(const std::string& what, int error_number) const;

  int descriptor_;
  std::string path_;
  ErrorKind kind_;
  Access access_;
};

// The whole of a small file. Throws Error(kind): missing, not readable, no regular file, longer
// than max_bytes.
std::string read_text(const std::string& path, std::size_t max_bytes,
                      ErrorKind kind = ErrorKind::kInput, Links links = Links::kFollow);
// The same, but of a pipe or a device too, as `<(...)` makes one: what is written to it until it is
// closed. Throws also when nothing comes for kLongestPause.
std::string read_text_or_pipe(const std::string& path, std::size_t max_bytes, ErrorKind kind);
inline constexpr std::chrono::seconds kLongestPause{2};

// Creates, writes, syncs. Not atomic: for files inside a directory that is published as a whole.
void write_text(const std::string& path, const std::string& text);

// All of `text`, where the descriptor stands. 0, or the errno of what failed.
int write_all(int descriptor, std::string_view text);
// Puts a new file with `text` in the place of `path` at once, through a temporary file beside it.
// 0, or the errno of what failed: then `path` is as it was. mode: by the umask unless given.
int replace_file(const std::string& path, std::string_view text, std::optional<mode_t> mode = {});

// Makes renames and creations in `directory` durable.
void sync_directory(const std::string& directory);
void rename_path(const std::string& from, const std::string& to);
// "." for a name without a slash.
std::string parent_directory(const std::string& path);
std::string base_name(const std::string& path);
// 16 random hexadecimal digits: for names that no other process or call uses.
std::string unique_suffix();

}  // namespace sluice
