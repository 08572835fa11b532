// Moves tensors between devices with NCCL. Another link carries the frame heads, which announce the
// transfers.
//
// A channel is one direction of a lane between two processes. It has its own communicator and
// stream, so a transfer waits only for earlier ones of its channel. Receives are posted as heads
// arrive, in the order of the sends. A send ends only with its receive, but the host waits for
// neither.
//
// All processes create communicators in the same order, to avoid deadlock. Group adds tensors, not
// NCCL. The first failure aborts all communicators. Thread-safe, but a channel makes one transfer
// at a time.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "comm/link.h"
#include "device/ready.h"
#include "nccl/nccl_table.h"

namespace sluice {

// Each rank needs four streams per other rank, and LibTorch has 32 per device.
inline constexpr int kMostNcclRanks = 9;

struct NcclLinkOptions {
  const nccl::Table* table = nullptr;
  at::Device device = at::kCPU;
  int num_processes = 2;  // one rank each
  int process = 0;
  std::string name;
  std::chrono::milliseconds deadline{100'000};
  // Returns a transfer's time limit. Called when the transfer begins.
  std::function<std::chrono::milliseconds()> transfer_deadline;
};

class NcclLink {
 public:
  // Lane 0: pipeline messages. Lane 1: collectives.
  static constexpr std::size_t kNumLanes = 2;
  // Thrown by a transfer if the other process has ended regularly.
  struct Stopped {};

  // Collective over the processes. Throws Error(kPeer).
  NcclLink(c10d::Store& store, NcclLinkOptions options);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  void start(LinkReceiver& receiver);

  c10::Stream stream_from(std::size_t lane, int process) const;

  // Call after sending the head. May block until the other process has posted the receive.
  void send(std::size_t lane, int process, const std::vector<at::Tensor>& tensors,
            const Ready& ready);
  // Fills the first num_bytes[i] bytes of tensors[i].
  void receive(std::size_t lane, int process, const std::vector<at::Tensor>& tensors,
               const std::vector<std::int64_t>& num_bytes);

  // Drops sends to the process, which has ended.
  void gone(std::size_t lane, int process);
  // Returns false if transfers are left after `until`.
  bool flush(std::chrono::steady_clock::time_point until);
  // Ends waits on all threads. Does not block.
  void stop() noexcept;
  // Call after stop(). Aborts communicators with transfers in flight.
  void close(bool failed) noexcept;

 private:
  struct Transfer {
    std::vector<at::Tensor> sent;  // kept until `ended`
    c10::Event ended;
    std::chrono::steady_clock::time_point give_up;
  };
  struct Channel {
    std::string name;  // "messages from process 0 to process 1"
    int process = 0;
    bool sends = false;
    std::optional<c10::Stream> stream;
    std::mutex calls;  // guards NCCL calls and the members below
    nccl::Comm comm = nullptr;
    std::deque<Transfer> under_way;
    bool is_gone = false;
  };
  using Give = std::function<nccl::Result(nccl::Comm, nccl::Stream)>;

  void connect(c10d::Store& store);
  Channel& channel(std::size_t lane, int process, bool sends) const;
  void transfer(Channel& channel, const std::vector<Give>& parts,
                const std::vector<at::Tensor>& sent);
  void settle(Channel& channel, nccl::Result result, const char* call,
              std::chrono::steady_clock::time_point give_up);
  void require(const Channel& channel, nccl::Result result, const char* call) const;
  [[noreturn]] void refuse_late(const Channel& channel, const char* call) const;
  void watch() noexcept;
  void look_at(Channel& channel);

  const NcclLinkOptions options_;
  // [lane][process]; null for this process
  std::array<std::vector<std::unique_ptr<Channel>>, kNumLanes> sending_, receiving_;
  LinkReceiver* receiver_ = nullptr;

  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t num_under_way_ = 0;
  std::thread watcher_;
};

}  // namespace sluice
