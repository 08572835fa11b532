// A file descriptor with errors that name the file, and the steps of an atomic publish. No torch.
//
// Thread-safety: reads of one File may run concurrently (pread); writes belong to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sluice/error.h"

namespace sluice {

// "No space left on device", from errno at the call.
std::string errno_text(int error_number);

// "WHAT: No space left on device" at `path`, with what can be done about it.
Error file_error(ErrorKind kind, const std::string& what, const std::string& path,
                 int error_number);

class File {
 public:
  // A regular file, following symbolic links. kind: of every error about this file.
  static File open(const std::string& path, ErrorKind kind = ErrorKind::kInput);
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
  File(int descriptor, std::string path, ErrorKind kind);
  [[noreturn]] void fail(const std::string& what, int error_number) const;

  int descriptor_;
  std::string path_;
  ErrorKind kind_;
};

// The whole of a small file. Throws when it is longer than `limit`.
std::string read_text(const std::string& path, std::uint64_t limit,
                      ErrorKind kind = ErrorKind::kInput);
// Creates, writes, syncs. Not atomic: for files inside a directory that is published as a whole.
void write_text(const std::string& path, const std::string& text);

// Makes renames and creations in `directory` durable.
void sync_directory(const std::string& directory);
void rename_path(const std::string& from, const std::string& to);
// "." for a name without a slash.
std::string parent_directory(const std::string& path);
std::string base_name(const std::string& path);
// 16 random hexadecimal digits: for names that no other process or call uses.
std::string unique_suffix();

}  // namespace sluice
