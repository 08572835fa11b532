// Turns SIGINT, SIGTERM and SIGHUP into a request to stop after the current step, and SIGUSR1 into
// a request to save and continue.
//
// Before the first step has finished, a stop signal ends the process with 128 + its number.
// Afterwards the first is a request, and the second ends the process. A different signal within two
// seconds is the same request, because a launcher forwards Ctrl-C as SIGTERM.
//
// An ignored SIGHUP (nohup) stays ignored. SIGPIPE and SIGXFSZ are ignored, so that the failing
// write reports the error. At most one StopSignal per process. Thread-safe.
#pragma once

namespace sluice {

class StopSignal {
 public:
  StopSignal();  // handlers stay until the process ends
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // From now on, a stop signal is a request instead of the end.
  void step_finished();
  bool requested() const;
  // True if saving was requested since the last call.
  bool take_save_request();
  // From now on signals have no effect.
  void run_finished();
};

}  // namespace sluice
