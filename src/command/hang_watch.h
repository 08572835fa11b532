// Watches the ranks of this process. If a rank hangs, warns first and ends the run after a longer
// wait. report/hang_judge.h decides whether a rank hangs. Time while the process itself is stopped
// does not count. A rank that waits for another rank does not hang. The options are called on the
// watch's own thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/flight_recorder.h"
#include "report/hang_judge.h"
#include "sluice/error.h"

namespace sluice {

struct HangWatchOptions {
  HangLimits limits;
  bool ends_run = true;  // false if there is no other rank that waits
  // Transport::waits() of this process's ranks.
  std::function<std::string()> waits;
  // Such as "rank 1 (stage 1)".
  std::function<std::string(int rank)> place;
  // Warns the user. `what` and `remedy` are parts of an Error.
  std::function<void(int rank, const std::string& what, const std::string& remedy)> warn;
  // Ends every wait on every rank with this error.
  std::function<void(int rank, const Error& error)> end;
  // Called if the watch still exists `patience` after end(). The hanging thread cannot be ended, so
  // this must end the process and not return.
  std::function<void()> leave;
  std::chrono::milliseconds patience{2000};
};

class HangWatch {
 public:
  // `recorders` are those of the local ranks and must outlive the watch.
  HangWatch(std::map<int, const FlightRecorder*> recorders, HangWatchOptions options);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
