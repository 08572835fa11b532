// A small file that only this user can read, by which processes of one machine find each other.
//
// Owns: a folder of this user alone below $XDG_RUNTIME_DIR, $TMPDIR or /tmp, and files in it. Does
// not own: their content (rendezvous.h).
//
// Invariants:
//  1. Nothing is read from or written into a folder or file that belongs to another user, that
//     others may read, or that is a link: Error(kUsage) for the folder, as if it were not there for
//     a file.
//  2. A file is there as a whole or not at all.
// Thread-safety: one thread a file.
#pragma once

#include <optional>
#include <string>

namespace sluice {

// Made where it is not there yet. Throws Error(kUsage).
std::string private_folder();
// The file of this name there; characters that a name cannot have are replaced, and machines that
// share the folder have files of their own.
std::string private_path(const std::string& name);

std::optional<std::string> read_private_file(const std::string& path);

class PrivateFile {
 public:
  // In the place of one that is there. Throws Error(kUsage) when it cannot be written.
  PrivateFile(std::string path, std::string text);
  // Removes it, unless another is in its place.
  ~PrivateFile();
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

 private:
  const std::string path_, text_;
};

}  // namespace sluice
