// Publishing a directory as a whole: temporary name, exchange, what killed runs leave behind.
//
// Owns: the names .step-XXXXXXXX.tmp-* (being written, or replaced and not yet removed) and
//   .step-XXXXXXXX.old-* (moved aside where the file system cannot exchange two names).
// Does not own: what is in the directory.
// No torch. Thread-safety: one object belongs to one thread.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::io {

class StepDirectory {
 public:
  using IsOurs = bool (*)(const std::string& file_name);

  // Creates `folder` and a temporary directory in it; removes those that no live process holds and
  // puts back what was moved aside. is_ours: files that may be removed. Throws Error(kCheckpoint).
  StepDirectory(std::string folder, std::int64_t step, IsOurs is_ours);
  // Without publish(): removes the temporary directory.
  ~StepDirectory();
  StepDirectory(const StepDirectory&) = delete;
  StepDirectory& operator=(const StepDirectory&) = delete;

  const std::string& temporary() const { return temporary_; }
  const std::string& final_path() const { return final_; }
  // Syncs the directory (its files are the caller's to sync), gives it its final name, syncs the
  // folder, removes the one it replaced. What holds files of others is not removed but kept beside
  // it as step-XXXXXXXX.kept-*.
  void publish();

 private:
  bool holds_only_ours(const std::string& path) const;
  void move_aside(const std::string& aside);
  std::string replace();

  std::string folder_, temporary_, final_;
  IsOurs is_ours_;
  int lock_ = -1;  // holds the temporary directory against the cleaning of another process
  bool published_ = false;
};

}  // namespace sluice::io
