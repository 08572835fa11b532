#pragma once

#include <string>

namespace sluice {

class ExportDirectory {
 public:
  // Makes a directory that gets the name `out` only in publish(). Throws Error(kUsage) unless `out`
  // is missing or empty, and Error(kCheckpoint) if the directory cannot be made.
  explicit ExportDirectory(std::string out);
  // Removes the directory unless it is published.
  ~ExportDirectory();
  ExportDirectory(const ExportDirectory&) = delete;
  ExportDirectory& operator=(const ExportDirectory&) = delete;

  const std::string& path() const { return path_; }
  void publish();

 private:
  std::string out_, path_;
  bool published_ = false;
};

}  // namespace sluice
