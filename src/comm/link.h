// The way from a process to the other processes of a run. "Process" is the owner of some of the
// ranks (process_ranks.h); in tests several are in one process of the machine.
//
// Owns: the interface. Does not own: what frames mean (process_ranks.h).
//
// Invariants:
//  1. send() never waits. Messages of the pipeline arrive in the order in which they were sent to a
//     process; so do frames of collectives; one kind may overtake the other.
//  2. A frame is given to the receiver only after the receiver has checked its outline, and before
//     that nothing is allocated for its tensors.
//  3. When a process ends without saying so, the receivers of the others hear of it once or several
//     times (lost). After abort() nothing is delivered but failures.
// Thread-safety: send and abort from any thread. The receiver is called on threads of the link's.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <exception>
#include <memory>
#include <string>

#include "comm/frame.h"

namespace sluice {

class LinkReceiver {
 public:
  // LibTorch's debugging state of the threads of the ranks here: with it, what a thread of the link
  // allocates and frees counts as theirs (MemoryLedger). Null before a rank has used the process.
  virtual std::shared_ptr<c10::ThreadLocalDebugInfo> counts_as() const = 0;
  // Throws Error(kPeer) for what that process cannot send.
  virtual void check(int from_process, const FrameOutline& outline) const = 0;
  // Where tensors of a frame go that were on a device at their sender.
  virtual c10::Device device_for(const FrameHead& head) const = 0;
  virtual void deliver(int from_process, Frame frame) = 0;
  // Another process says that a rank has failed.
  virtual void aborted(const Failure& failure) noexcept = 0;
  // A frame of that process, or a process here, is at fault.
  virtual void wrong(int from_process, const std::exception_ptr& error) noexcept = 0;
  // The connection to that process is gone. how: what the link says.
  virtual void lost(int from_process, const std::string& how) noexcept = 0;
  virtual ~LinkReceiver() = default;
};

class Link {
 public:
  // Frames that were sent arrive, but for those to processes that have ended; the other processes
  // do not take the end for a failure, unless abort() came first.
  virtual ~Link() = default;

  // Once, before anything is sent. The receiver outlives the link.
  virtual void start(LinkReceiver& receiver) = 0;
  // A frame to a process that has ended or is lost is dropped. The tensors are kept until they are
  // sent, and must not be written to.
  virtual void send(int process, Frame frame) = 0;
  // Tells every other process as far as the connections work, gives up what is on its way, and ends
  // the connections; returns without waiting for that.
  virtual void abort(const Failure& failure) noexcept = 0;
};

}  // namespace sluice
