// Sends and receives frames over one Gloo process group (lane) of a Gloo link. Thread-safe.
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
std::string reason_of(const std::exception& error);

struct Lane {
  GroupPtr group;
  std::size_t number = 0;
  NcclLink* nccl = nullptr;  // null: device tensors go through the host
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

class PeerLane {
 public:
  PeerLane(Lane& lane, int process, std::string name)
      : lane_(lane), process_(process), name_(std::move(name)) {}
  ~PeerLane() { join(); }

  void start(LinkReceiver& receiver);

  // Does not block. A thread delays frames until their tensors are computed.
  void send(const Frame& frame);

  // Sends the lane's last frame. Does not block.
  void send_last(const Frame& frame);
  // Returns false if frames are still unsent after `until`.
  bool flush(std::chrono::steady_clock::time_point until);
  void stop();
  // Unfinished transfers, which Gloo may use until the process group is destroyed.
  std::vector<WorkPtr> leftovers();

 private:
  using Receiving = std::list<WorkPtr>::iterator;
  // A frame that waits until its tensors are computed or on the host.
  struct Outgoing {
    std::string outline;
    std::vector<at::Tensor> payloads;
    std::int64_t payload_bytes = 0;
    Ready arrived;
    std::vector<at::Tensor> on_device;
    Ready computed;
  };

  // Returns false if the other process no longer receives.
  bool post(Outgoing& frame);
  void post_send(at::Tensor bytes);
  void pack_arriving() noexcept;

  bool goes_by_nccl(const TensorLayout& layout) const {
    return lane_.nccl && layout.on_device() && layout.num_bytes() > 0;
  }
  std::optional<Receiving> post_receive(const at::Tensor& bytes, int tag);
  bool finish(std::optional<Receiving> receiving);

  void receive_frames(LinkReceiver& receiver) noexcept;

  std::optional<Frame> take_frame(const at::Tensor& header, LinkReceiver& receiver);

  void end();

  // Frees sent bytes and their Work, which Gloo needs until they are sent.
  void release_sent(const LinkReceiver& receiver) noexcept;

  void join();

  Lane& lane_;
  const int process_;
  const std::string name_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WorkPtr> sending_;
  std::list<WorkPtr> receiving_;
  std::deque<Outgoing> leaving_;  // the front is being sent
  LinkReceiver* receiver_ = nullptr;
  bool closed_ = false;  // we send nothing more
  bool ended_ = false;   // the other process sends nothing more
  bool broken_ = false;
  bool stopping_ = false;
  std::thread receiver_thread_, reaper_thread_;
  std::thread packer_thread_;
};

}  // namespace sluice::detail
