// The watch over ranks that run: names one of this process that hangs in a warning while the run
// waits on, and ends the run when it has waited long enough.
//
// Owns: the thread that looks. Does not own: the judgement (report/hang_judge.h), what becomes of
// the run (HangWatchOptions).
//
// Invariants:
//  1. Time in which the process itself was stopped does not count.
//  2. A rank that waits for another one does not hang, wherever in an instruction it waits.
// Thread-safety: for one thread; the options are called on the watch's own.
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
  bool ends_run = true;  // there is another rank, which waits
  // The waits of the ranks of this process (Transport::waits).
  std::function<std::string()> waits;
  // "rank 1 (stage 1)"
  std::function<std::string(int rank)> place;
  // Tells the user. what, remedy: as of an Error.
  std::function<void(int rank, const std::string& what, const std::string& remedy)> warn;
  // Ends the run, by this error of the rank: every wait, on every rank.
  std::function<void(int rank, const Error& error)> end;
  // The watch is still there `patience` after end(): the rank hangs on, and nothing but the end of
  // the process ends it. Does not return.
  std::function<void()> leave;
  std::chrono::milliseconds patience{2000};
};

class HangWatch {
 public:
  // recorders: of the ranks here, which outlive it.
  HangWatch(std::map<int, const FlightRecorder*> recorders, HangWatchOptions options);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
