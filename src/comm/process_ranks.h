// The state that the ranks of one process share: messages that have arrived for them, their groups,
// the first failure, and the link to the other processes. A process that has all ranks needs no
// link.
//
// Owns: inboxes, groups, the failure, the link. Does not own: what a rank does with a message
// (rank_transport.cpp), how frames move (link.h).
//
// Invariants:
//  1. What comes over the link lies in the same inboxes and groups as what ranks here give each
//     other: order, deadlines and the end of waits are one code.
//  2. The first failure wins, reaches on_failure before any wait ends, and reaches every rank
//     here and, as far as the link works, every other process.
// Thread-safety: any thread may call anything but connect().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/first_failure.h"
#include "comm/group_state.h"
#include "comm/link.h"
#include "device/ready.h"
#include "sluice/parts/transport.h"

namespace sluice {

struct ProcessRanksOptions {
  int num_ranks = 1;
  int num_processes = 1;  // divides the ranks; process n has ranks n k .. n k + k - 1
  int process = 0;        // this one
  std::vector<at::Device> devices = {};  // of the ranks here, in their order; empty: the CPU
  std::function<std::chrono::milliseconds()> deadline = [] { return std::chrono::seconds(100); };
  std::function<void(const Failure&)> on_failure;
  std::function<std::optional<Failure>()> cause;
};

// "process 1 (ranks 2, 3)", of a process among num_processes with num_ranks ranks.
std::string process_text(int process, int num_processes, int num_ranks);

struct ArrivedMessage {
  Message message;
  Ready ready;  // of its tensors, by the sender's streams
};

// The messages of one channel, at its receiver. Message k of the channel belongs to the k-th post.
struct ArrivedMessages {
  std::deque<std::optional<ArrivedMessage>>
      messages;  // arrived and not yet taken, from number `first`
  std::uint64_t first = 0;
  std::uint64_t posted = 0;

  bool has(std::uint64_t number) const { return number - first < messages.size(); }
  ArrivedMessage take(std::uint64_t number);
};

// Messages that have arrived at one rank.
struct Inbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<int, ChannelKind>, ArrivedMessages> channels;
};

class ProcessRanks final : public LinkReceiver {
 public:
  explicit ProcessRanks(ProcessRanksOptions options);
  ~ProcessRanks() override;
  ProcessRanks(const ProcessRanks&) = delete;
  ProcessRanks& operator=(const ProcessRanks&) = delete;

  // Once, before ranks use it.
  void connect(std::unique_ptr<Link> link);

  int num_ranks() const { return options_.num_ranks; }
  std::chrono::milliseconds deadline() const { return options_.deadline(); }
  int here() const { return options_.process; }
  int process_of(int rank) const { return rank / ranks_per_process_; }
  std::vector<int> ranks_here() const;
  at::Device device_of(int rank) const;  // that is here
  const FirstFailure& failure() const { return failure_; }

  // The inbox of a rank that is here.
  Inbox& inbox_of(int rank);
  void send(int source, int destination, ChannelKind kind, Message message);
  void send_to_process(int process, Frame frame);

  // The group with this id, which is the same on all processes; made by the first who asks.
  GroupState& group(const std::string& id, const std::vector<int>& members);
  GroupState& world() { return *world_; }

  // The first failure of this process: ends every wait. Later ones change nothing.
  void fail(const Failure& failure) noexcept;

  // While it lives, waits() has `text()`, which may be called on any thread.
  class Waiting {
   public:
    Waiting(ProcessRanks& process, std::function<std::string()> text);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    ProcessRanks& process_;
    std::map<std::uint64_t, std::function<std::string()>>::iterator entry_;
  };
  // The current waits of ranks here: "rank 0 waits for 1RECV_B3 of step 4 from rank 2", one after
  // another with ", "; "" for nothing.
  std::string waits() const;

  // Called by the ranks here.
  void count_as_this_thread();
  std::shared_ptr<c10::ThreadLocalDebugInfo> counts_as() const override;

  void check(int from_process, const FrameOutline& outline) const override;
  at::Device device_for(const FrameHead& head) const override;
  void deliver(int from_process, Frame frame) override;
  void aborted(const Failure& failure) noexcept override { fail(failure); }
  void wrong(int from_process, const std::exception_ptr& error) noexcept override;
  void lost(int from_process, const std::string& how) noexcept override;

 private:
  void put(int source, int destination, ChannelKind kind, Message message);
  std::string name_of(int process) const;

  const ProcessRanksOptions options_;
  const int ranks_per_process_;
  std::deque<Inbox> inboxes_;  // of ranks_here()

  FirstFailure failure_;
  std::recursive_mutex failing_mutex_;  // on_failure may come back
  bool failing_ = false;

  mutable std::mutex groups_mutex_;
  std::map<std::string, std::unique_ptr<GroupState>> groups_;
  // Frames that came for groups that no rank here has made yet, by group.
  struct EarlyFrame {
    int from_process = 0;
    Frame frame;
    Ready ready;  // its tensors, by the streams of the thread that received them
  };
  std::map<std::string, std::vector<EarlyFrame>> early_;
  GroupState* world_;

  mutable std::mutex counting_mutex_;
  std::atomic<bool> is_counting_{false};
  std::shared_ptr<c10::ThreadLocalDebugInfo> counts_as_;

  mutable std::mutex waiting_mutex_;
  std::uint64_t next_waiting_ = 0;
  std::map<std::uint64_t, std::function<std::string()>> waiting_;

  std::unique_ptr<Link> link_;  // its threads use all of the above
};

// Endpoints of the ranks of a process, in their order.
std::vector<std::unique_ptr<Transport>> make_endpoints(std::shared_ptr<ProcessRanks> process);

}  // namespace sluice
