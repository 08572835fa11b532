// The exchange of messages between ranks: narrow, nothing optional, a deadline on every wait.
//
// Ranks that are threads hand tensors over without a copy. For ranks in several processes call
// run() (pipeline.h).
//
// Invariants:
//  1. A channel is one FIFO per (source, destination, ChannelKind); messages never overtake.
//  2. send() never waits. A receive is posted first, then waited for; posts on one channel are
//     completed in the order in which they were posted.
//  3. Every wait ends: by its message, by the deadline (Error kPeer naming the missing message), or
//     by abort (Error with the first failure).
//  4. After abort() on any rank, every present and later wait of every rank, in groups too, ends
//     with that failure, and messages in flight are dropped. This is permanent: after a failure
//     make new endpoints.
// Thread-safety: one endpoint belongs to one rank's thread, except abort(), failure() and
// waits(), which any thread may call.
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

namespace sluice {

// The identity of a message, checked against the one that the receiver expects.
struct MessageTag {
  std::int32_t stage = -1;  // the stage that receives
  std::int32_t microbatch = -1;
  std::int64_t step = 0;
  friend bool operator==(const MessageTag&, const MessageTag&) = default;
};

struct Message {
  MessageTag tag;
  std::vector<at::Tensor> tensors;  // an undefined tensor is a value without gradient
};

// The receiver's knowledge of a message before it arrives.
struct ExpectedTensors {
  std::vector<TensorMeta> metas;
  // True: the metas come from shape functions, and others are an error. False: they are a guess,
  // with which a transport may post its receive early, after comparing it with the header.
  bool certain = false;
  std::vector<std::string> names;  // names of the values, for error texts; may be empty
};

// The first failure of a group of ranks.
struct Failure {
  int rank = -1;
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;  // the whole line
};

class Transport {
 public:
  using Ticket = std::uint64_t;
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The device on which the rank computes, and messages arrive whose tensors are on one.
  virtual at::Device device() const { return at::kCPU; }

  // Hands the tensors over; the receiver may get the same storage, so the sender must not write to
  // them afterwards. On a GPU what the sender's current streams have been given until now is done
  // before the receiver's current stream uses them; neither host waits.
  virtual void send(int destination, ChannelKind kind, Message message) = 0;
  // Reserves the next message of the channel. tensors: what is known of its tensors, if anything.
  virtual Ticket post_receive(int source, ChannelKind kind, const MessageTag& tag,
                              const std::optional<ExpectedTensors>& tensors) = 0;
  // True if wait() would return, or throw, at once.
  virtual bool has_arrived(Ticket ticket) const = 0;
  // Waits for the message. Throws Error(kPeer) at the deadline, Error(kInternal) if another tag or
  // other metas arrive.
  virtual Message wait(Ticket ticket) = 0;

  // The group of all ranks; member i is rank i. The same group each time.
  virtual Group world() const = 0;

  // Wakes all ranks with this failure. The first abort wins.
  virtual void abort(const Failure& failure) noexcept = 0;
  virtual std::optional<Failure> failure() const = 0;

  // The present waits of this process's ranks, for people: "rank 0 waits for 1RECV_B3 of step 4
  // from rank 2, rank 1 waits in barrier for rank 2"; "" if none waits. May be called from any
  // thread.
  virtual std::string waits() const = 0;
};

struct TransportOptions {
  // Limit of every wait: make it longer than any rank takes to send a message that another waits
  // for.
  std::chrono::milliseconds deadline{100'000};
  // Devices of the ranks, in their order. Empty: the CPU.
  std::vector<at::Device> devices = {};
};

// Endpoints of `size` ranks that are threads of this process.
std::vector<std::unique_ptr<Transport>> make_local_transports(int size,
                                                              const TransportOptions& options = {});

}  // namespace sluice
