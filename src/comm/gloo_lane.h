// One lane of a Gloo link: a process group, and the frames that travel on it to another process.
//
// Owns: headers, outlines and payloads as messages of Gloo, and the threads that receive them and
// let go of what has left. Does not own: the link and its end (gloo_link.cpp), frames (frame.h),
// the transfers between devices that take the way of their own (nccl_link.h). Thread-safety: a Lane
// and a PeerLane may be used by several threads.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/frame.h"
#include "comm/link.h"
#include "comm/nccl_link.h"
#include "comm/no_sigpipe.h"

namespace sluice::detail {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

enum Tag : int { kHeaderTag = 0, kNonceTag = 1, kProofTag = 2, kPayloadTag = 8 };

at::Tensor bytes_tensor(std::int64_t bytes);
at::Tensor copied(const std::string& bytes);
std::string text_of(const at::Tensor& tensor);
// Gloo's message, without the place in its sources.
std::string reason_of(const std::exception& error);

// One process group; its calls are one at a time.
struct Lane {
  GroupPtr group;
  std::size_t number = 0;
  NcclLink* nccl = nullptr;  // the way of tensors of a device; null: by the host
  std::mutex calls;

  WorkPtr send(at::Tensor bytes, int process, int tag) {
    std::vector<at::Tensor> tensors{std::move(bytes)};
    const NoSigpipe no_sigpipe;
    const std::lock_guard lock(calls);
    return group->send(tensors, process, tag);
  }
  WorkPtr receive(at::Tensor bytes, int process, int tag) {
    std::vector<at::Tensor> tensors{std::move(bytes)};
    const NoSigpipe no_sigpipe;
    const std::lock_guard lock(calls);
    return group->recv(tensors, process, tag);
  }
};

// One lane to one process.
class PeerLane {
 public:
  PeerLane(Lane& lane, int process, std::string name)
      : lane_(lane), process_(process), name_(std::move(name)) {}
  ~PeerLane() { join(); }

  void start(LinkReceiver& receiver);

  // Returns before the tensors of a device have left it: a thread of the lane sends them, and what
  // comes after them, when they have.
  void send(const Frame& frame);

  // Nothing is sent after this frame. Returns at once.
  void send_last(const Frame& frame);
  // All that was sent has left, or never will. False after `until`.
  bool flush(std::chrono::steady_clock::time_point until);
  // Ends the threads.
  void stop();
  // Works that Gloo may still write to or read from: to be dropped after the group.
  std::vector<WorkPtr> leftovers();

 private:
  using Receiving = std::list<WorkPtr>::iterator;
  // A frame whose payloads are on their way to the host, or go from their device.
  struct Outgoing {
    std::string outline;
    std::vector<at::Tensor> payloads;
    std::int64_t payload_bytes = 0;
    Ready arrived;
    std::vector<at::Tensor> on_device;
    Ready computed;  // what is on the device
  };

  // False: the other process takes it no more.
  bool post(Outgoing& frame);
  void post_send(at::Tensor bytes);
  void pack_arriving() noexcept;

  bool goes_by_nccl(const TensorLayout& layout) const {
    return lane_.nccl && layout.on_device() && layout.num_bytes() > 0;
  }
  // Nothing when the link ends.
  std::optional<Receiving> post_receive(const at::Tensor& bytes, int tag);
  // False when the link ends.
  bool finish(std::optional<Receiving> receiving);

  void receive_frames(LinkReceiver& receiver) noexcept;

  // Nothing when no other frame will come.
  std::optional<Frame> take_frame(const at::Tensor& header, LinkReceiver& receiver);

  void end();

  // Gloo needs the bytes and their Work until they have left.
  void release_sent(const LinkReceiver& receiver) noexcept;

  void join();

  Lane& lane_;
  const int process_;
  const std::string name_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WorkPtr> sending_;   // in their order, until they have left
  std::list<WorkPtr> receiving_;  // posted and not finished
  std::deque<Outgoing> leaving_;  // their devices, in their order; the front until it is sent
  LinkReceiver* receiver_ = nullptr;
  bool closed_ = false;    // nothing is sent any more
  bool ended_ = false;     // the other process sends nothing any more
  bool broken_ = false;    // the connection is gone
  bool stopping_ = false;  // no wait goes on
  std::thread receiver_thread_, reaper_thread_;
  std::thread packer_thread_;  // once a frame has come from a device
};

}  // namespace sluice::detail
