// Ctrl-C, SIGTERM and SIGHUP (the terminal was closed) as a request to stop after the step that
// runs; SIGUSR1 as a request to save after it and continue.
//
// Before the first step is finished there is nothing to save: the signal ends the process at once
// with 128 + its number. After that, the first signal is a request and the second ends the process.
// (The system merges equal signals that arrive before the first was handled: those are one
// request. So is another signal within two seconds: a launcher passes on as SIGTERM the Ctrl-C that
// the terminal has sent to everybody.) Once the run is over, its weights on disk, a signal changes
// nothing any more: the handlers stay until the process ends, which takes as long as torch's own
// end. SIGUSR1 never ends the process; one that comes before a step is finished is a request to
// save after the first, and several are one until it is taken. A SIGHUP that was ignored before, as
// by nohup, stays ignored. SIGPIPE and SIGXFSZ are ignored: a closed pipe and a file that grew too
// large are errors of the write that met them. Thread-safety: at most one StopSignal in a process;
// its members may be called from any thread.
#pragma once

namespace sluice {

class StopSignal {
 public:
  StopSignal();  // installs the handlers, which stay
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // From now on there is something to save.
  void step_finished();
  bool requested() const;
  // True when it was asked to save since the last call: once a request.
  bool take_save_request();
  // From now on the process ends as it will, whatever signals come.
  void run_finished();
};

}  // namespace sluice
