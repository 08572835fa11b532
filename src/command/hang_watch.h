// Warns of a rank of this process that hangs, and later ends the run. Waiting for another rank is
// not hanging. The watch's thread calls the functions in HangWatchOptions.
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
  bool ends_run = true;  // false for a single rank
  std::function<std::string()> waits;
  // Returns a name such as "rank 1 (stage 1)".
  std::function<std::string(int rank)> place;
  std::function<void(int rank, const std::string& what, const std::string& remedy)> warn;
  // Must end every wait on every rank with this error.
  std::function<void(int rank, const Error& error)> end;
  // Must end the process. Called if the rank still hangs `patience` after end().
  std::function<void()> leave;
  std::chrono::milliseconds patience{2000};
};

class HangWatch {
 public:
  // The local ranks' `recorders` must outlive the watch.
  HangWatch(std::map<int, const FlightRecorder*> recorders, HangWatchOptions options);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
