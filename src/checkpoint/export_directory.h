// A directory that is written beside its final name, and has it only when it is whole.
//
// Owns: the temporary directory, its publication. Does not own: its content.
// Thread-safety: one thread.
#pragma once

#include <string>

namespace sluice {

class ExportDirectory {
 public:
  // out: not there yet, or an empty directory. Throws Error(kUsage) if it is something else,
  // Error(kCheckpoint) when nothing can be made there.
  explicit ExportDirectory(std::string out);
  // Without publish(): leaves nothing.
  ~ExportDirectory();
  ExportDirectory(const ExportDirectory&) = delete;
  ExportDirectory& operator=(const ExportDirectory&) = delete;

  const std::string& path() const { return path_; }  // where to write
  void publish();

 private:
  std::string out_, path_;
  bool published_ = false;
};

}  // namespace sluice
