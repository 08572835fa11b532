// The way from a node to the other nodes of a run. A node is a process with some of the ranks; in
// tests several are in one process.
//
// Owns: the interface. Does not own: what frames mean (node.h).
//
// Invariants:
//  1. send() never waits. Messages of the pipeline arrive in the order in which they were sent to a
//     node; so do frames of collectives; one kind may overtake the other.
//  2. A frame is given to the receiver only after the receiver has checked its outline, and before
//     that nothing is allocated for its tensors.
//  3. When a node ends without saying so, the receivers of the others hear of it once or several
//     times (lost). After abort() nothing is delivered but failures.
// Thread-safety: send and abort from any thread. The receiver is called on threads of the wire's.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <string>

#include "comm/frame.h"

namespace sluice {

class WireReceiver {
 public:
  // What the threads of the ranks here have of LibTorch's debugging: with it, what a thread of the
  // wire allocates and frees counts as theirs (MemoryLedger). Null before a rank has used the node.
  virtual std::shared_ptr<c10::ThreadLocalDebugInfo> counts_as() const = 0;
  // Throws Error(kPeer) for what that node cannot send.
  virtual void check(int from_node, const FrameOutline& outline) const = 0;
  virtual void deliver(int from_node, Frame frame) = 0;
  // Another node says that a rank has failed.
  virtual void aborted(const Failure& failure) noexcept = 0;
  // A frame of that node, or a node here, is at fault.
  virtual void wrong(int from_node, const std::exception_ptr& error) noexcept = 0;
  // The connection to that node is gone. how: what the wire says.
  virtual void lost(int from_node, const std::string& how) noexcept = 0;
  virtual ~WireReceiver() = default;
};

class Wire {
 public:
  // Frames that were sent arrive, but for those to nodes that have ended; the other nodes do not
  // take the end for a failure, unless abort() came first.
  virtual ~Wire() = default;

  // Once, before anything is sent. The receiver outlives the wire.
  virtual void start(WireReceiver& receiver) = 0;
  // What goes to a node that has ended or is lost is dropped. The tensors are kept until they are
  // sent, and must not be written to.
  virtual void send(int node, Frame frame) = 0;
  // Tells every other node as far as the connections work, gives up what is on its way, and ends
  // the connections; returns without waiting for that.
  virtual void abort(const Failure& failure) noexcept = 0;
};

}  // namespace sluice
