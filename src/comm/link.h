// Connects a process to the others of a run. Between two processes, messages arrive in order, and
// so do collectives, but one kind may overtake the other. Tensor memory is allocated only after
// check(). After abort() only failures are delivered. send() and abort() are thread-safe. The
// link's threads call the receiver.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <exception>
#include <memory>
#include <string>

#include "comm/frame.h"

namespace sluice {

class LinkReceiver {
 public:
  // The MemoryLedger context to which allocations of the link's threads are charged. Null before a
  // rank first uses the link.
  virtual std::shared_ptr<c10::ThreadLocalDebugInfo> counts_as() const = 0;
  // Throws Error(kPeer) if the process must not send such a frame.
  virtual void check(int from_process, const FrameOutline& outline) const = 0;
  // Returns where to put tensors that were on a device at the sender.
  virtual c10::Device device_for(const FrameHead& head) const = 0;
  virtual void deliver(int from_process, Frame frame) = 0;
  virtual void aborted(const Failure& failure) noexcept = 0;
  // A frame from the process was damaged, or delivering it failed.
  virtual void wrong(int from_process, const std::exception_ptr& error) noexcept = 0;
  // The connection to the process broke. `how`: the link's error text. May be called several times.
  virtual void lost(int from_process, const std::string& how) noexcept = 0;
  virtual ~LinkReceiver() = default;
};

class Link {
 public:
  // Delivers all sent frames, except to processes that have ended. Others see a regular end, unless
  // abort() was called.
  virtual ~Link() = default;

  // Call once, before send(). The receiver must outlive the link.
  virtual void start(LinkReceiver& receiver) = 0;
  // Does not block. Drops frames to ended processes. The tensors must not be written to afterwards.
  virtual void send(int process, Frame frame) = 0;
  // Sends the failure to all reachable processes and drops frames in flight. Does not block.
  virtual void abort(const Failure& failure) noexcept = 0;
};

}  // namespace sluice
