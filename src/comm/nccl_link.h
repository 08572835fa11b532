// Transfers between the devices of processes over NCCL, beneath a link that carries all else: heads
// come over the link, and what they announce moves here.
//
// A channel is what one process sends another on one lane of the link: a communicator of two and a
// stream, of both processes. So a transfer waits for those before it on its channel and for no
// other, and no send stands behind a receive. A receive is posted when its head has come, thus in
// the order of the sends. A send ends with its receive alone; the host waits for neither.
//
// Owns: communicators and streams of the channels of this process, and a thread that looks whether
// transfers end in time and communicators are well. Does not own: heads and outlines
// (gloo_lane.h), NCCL (the table).
//
// Invariants:
//  1. Communicators are made one after the other in one order of all processes, before the first
//     transfer: making one waits for no other.
//  2. NCCL moves bytes and never adds: sums have their order from Group.
//  3. The first failure, here or elsewhere, aborts all communicators, and none is used afterwards.
// Thread-safety: any thread; one at a time for each channel's transfers.
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

// A rank has four channels for each other one, each with a stream, and LibTorch has a device's
// streams in a pool of 32: with more ranks two channels would share one.
inline constexpr int kMostNcclRanks = 9;

struct NcclLinkOptions {
  const nccl::Table* table = nullptr;
  at::Device device = at::kCPU;  // of this process
  int num_processes = 2;         // a rank each
  int process = 0;
  std::string name;                             // of the connection among those of the job
  std::chrono::milliseconds deadline{100'000};  // of the connection
  // Limit of every transfer; asked when one begins.
  std::function<std::chrono::milliseconds()> transfer_deadline;
};

class NcclLink {
 public:
  // The channels of a process to one other: messages of the pipeline, collectives.
  static constexpr std::size_t kNumLanes = 2;
  // Ends a thread's part in transfers that nobody takes any more: no failure of its own.
  struct Stopped {};

  // Collective over the processes. Throws Error(kPeer) where NCCL makes no communicator.
  NcclLink(c10d::Store& store, NcclLinkOptions options);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  // Once, before the first transfer: who hears of failures.
  void start(LinkReceiver& receiver);

  // The device's stream on which transfers from that process run.
  c10::Stream stream_from(std::size_t lane, int process) const;

  // After its head: the bytes of tensors that are ready when `ready` is. Returns when NCCL has
  // taken it, which may be when the receive is posted.
  void send(std::size_t lane, int process, const std::vector<at::Tensor>& tensors,
            const Ready& ready);
  // Into the first bytes of each tensor: `num_bytes`, as the head says.
  void receive(std::size_t lane, int process, const std::vector<at::Tensor>& tensors,
               const std::vector<std::int64_t>& num_bytes);

  // The process takes nothing more: sends to it that wait are given up, which is no failure.
  void gone(std::size_t lane, int process);
  // All transfers have ended or are given up. False after `until`.
  bool flush(std::chrono::steady_clock::time_point until);
  // No transfer begins or is waited for any more. Returns at once.
  void stop() noexcept;
  // After stop(): ends the communicators, by abort where transfers are on their way.
  void close(bool failed) noexcept;

 private:
  struct Transfer {
    std::vector<at::Tensor> sent;  // kept until then: nobody else writes to them meanwhile
    c10::Event ended;
    std::chrono::steady_clock::time_point give_up;
  };
  struct Channel {
    std::string name;  // "messages from process 0 to process 1"
    int process = 0;   // the other one
    bool sends = false;
    std::optional<c10::Stream> stream;
    std::mutex calls;  // of NCCL, and what is below
    nccl::Comm comm = nullptr;
    std::deque<Transfer> under_way;
    bool is_gone = false;
  };
  using Give = std::function<nccl::Result(nccl::Comm, nccl::Stream)>;

  void connect(c10d::Store& store);
  Channel& channel(std::size_t lane, int process, bool sends) const;
  void transfer(Channel& channel, const std::vector<Give>& parts,
                const std::vector<at::Tensor>& sent);
  // Until NCCL has taken what it was given.
  void settle(Channel& channel, nccl::Result result, const char* call,
              std::chrono::steady_clock::time_point give_up);
  void require(const Channel& channel, nccl::Result result, const char* call) const;
  [[noreturn]] void refuse_late(const Channel& channel, const char* call) const;
  void watch() noexcept;
  void look_at(Channel& channel);

  const NcclLinkOptions options_;
  // By lane and process; null for this process.
  std::array<std::vector<std::unique_ptr<Channel>>, kNumLanes> sending_, receiving_;
  LinkReceiver* receiver_ = nullptr;

  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t num_under_way_ = 0;
  std::thread watcher_;
};

}  // namespace sluice
