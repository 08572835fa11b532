// A small file by which processes of one machine find each other, in a folder below
// $XDG_RUNTIME_DIR, $TMPDIR or /tmp. If a folder or file is a link, belongs to another user or is
// accessible to others, the folder throws Error(kUsage) and the file counts as missing.
#pragma once

#include <optional>
#include <string>

namespace sluice {

std::string private_folder();
// Contains the machine's name, because machines may share the folder.
std::string private_path(const std::string& name);

std::optional<std::string> read_private_file(const std::string& path);

class PrivateFile {
 public:
  PrivateFile(std::string path, std::string text);
  // Removes the file, unless another process has replaced it.
  ~PrivateFile();
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

 private:
  const std::string path_, text_;
};

}  // namespace sluice
