// Calls a function on its own thread when SIGUSR2 requests flight records. At most one per process.
#pragma once

#include <functional>
#include <memory>

namespace sluice {

class RecordSignal {
 public:
  // Several signals in a row may cause a single call. Throws Error(kMemory).
  explicit RecordSignal(std::function<void()> call);
  ~RecordSignal();
  RecordSignal(const RecordSignal&) = delete;
  RecordSignal& operator=(const RecordSignal&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
