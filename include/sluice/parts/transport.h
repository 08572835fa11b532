// Sends tensors between the ranks of a pipeline, with a deadline on every wait.
//
// Ranks that are threads pass tensors without a copy. For several processes, call run()
// (pipeline.h).
//
// Messages of a channel (source, destination, kind) arrive in order. send() never waits. Receives
// complete in the order of post_receive(). A wait ends with its message, at the deadline with
// Error(kPeer), or after an abort with the first failure. abort() on any rank ends all waits of all
// ranks, also in groups, and drops messages in flight. Make new endpoints afterwards.
//
// An endpoint belongs to its rank's thread, but any thread may call abort(), failure() and waits().
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/error.h"
#include "sluice/parts/flow.h"
#include "sluice/parts/group.h"
#include "sluice/parts/values.h"

namespace c10d {
class ProcessGroup;
}

namespace sluice {

struct MessageTag {
  std::int32_t stage = -1;  // the receiving stage
  std::int32_t microbatch = -1;
  std::int64_t step = 0;
  friend bool operator==(const MessageTag&, const MessageTag&) = default;
};

struct Message {
  MessageTag tag;
  std::vector<at::Tensor> tensors;  // undefined: no gradient
};

struct ExpectedTensors {
  std::vector<TensorMeta> metas;
  // Whether other metas are an error. If false, `metas` are a guess that lets a transport post a
  // receive early.
  bool certain = false;
  std::vector<std::string> names;
};

struct Failure {
  int rank = -1;
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
};

class Transport {
 public:
  using Ticket = std::uint64_t;
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The device of the rank and of received tensors.
  virtual at::Device device() const { return at::kCPU; }

  // Do not write to the tensors afterwards, as the receiver may share their storage. On a GPU, the
  // receiver's stream waits for the sender's current work, and neither host waits.
  virtual void send(int destination, ChannelKind kind, Message message) = 0;
  virtual Ticket post_receive(int source, ChannelKind kind, const MessageTag& tag,
                              const std::optional<ExpectedTensors>& tensors) = 0;
  // True if wait() would not block.
  virtual bool has_arrived(Ticket ticket) const = 0;
  // Throws Error(kPeer) at the deadline, Error(kInternal) for another tag or metas.
  virtual Message wait(Ticket ticket) = 0;

  // Returns the group of all ranks, always the same object. Member i is rank i.
  virtual Group world() const = 0;

  // Ends the waits of all ranks. Only the first abort counts.
  virtual void abort(const Failure& failure) noexcept = 0;
  virtual std::optional<Failure> failure() const = 0;

  // The waiting ranks of this process: "rank 0 waits for 1RECV_B3 of step 4 from rank 2, rank 1
  // waits in barrier for rank 2"; "" if none waits.
  virtual std::string waits() const = 0;
};

struct TransportOptions {
  // Must exceed the longest time between messages.
  std::chrono::milliseconds deadline{100'000};
  // One device per rank. Empty: the CPU.
  std::vector<at::Device> devices = {};
};

// Makes the transport of one rank of the caller's process group. All ranks of the group must call
// it, in the same order. sluice connects the processes through the group's store, on the interface
// GLOO_SOCKET_IFNAME or the address of the host name. It does not use the group's own connections.
// A rank is a process or a thread. Throws Error(kUsage) for a group without a store, Error(kPeer)
// if ranks are missing. Set the thread's number of operator threads yourself (at::set_num_threads),
// because the order of sums depends on it; run() sets 1.
//     auto transport = sluice::make_transport(*group);
//     sluice::Pipeline pipeline(model, sluice::plan_pipeline(model, options), *transport);
std::unique_ptr<Transport> make_transport(c10d::ProcessGroup& group,
                                          const TransportOptions& options = {});

// Makes the transports of ranks that are threads of this process.
std::vector<std::unique_ptr<Transport>> make_local_transports(int size,
                                                              const TransportOptions& options = {});

}  // namespace sluice
