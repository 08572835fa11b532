#pragma once

#include <string>

namespace sluice {

class ExportDirectory {
 public:
  // The directory gets the name `out` in publish(). Throws Error(kUsage) unless `out` is missing or
  // empty, and Error(kCheckpoint) if it cannot be created.
  explicit ExportDirectory(std::string out);
  // Removes the directory unless publish() succeeded.
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
