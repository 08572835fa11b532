// SIGUSR2, the request for flight records of a run, as a call on its own thread. Thread-safety: for
// the main thread; at most one at a time in a process.
#pragma once

#include <functional>
#include <memory>

namespace sluice {

class RecordSignal {
 public:
  // While it lives, `call` follows every signal, several in a row maybe once; later the signal
  // changes nothing. Before the first one it is held back, by the program (begin_process). Throws
  // Error(kMemory).
  explicit RecordSignal(std::function<void()> call);
  ~RecordSignal();
  RecordSignal(const RecordSignal&) = delete;
  RecordSignal& operator=(const RecordSignal&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
