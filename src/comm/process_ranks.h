// State that the ranks of one process share. When a rank first fails, the options' on_failure
// callback runs before any blocked wait of the local ranks throws. Then every local rank gets the
// failure and, if the connections work, every other process. Thread-safe except for connect().
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
  int num_processes = 1;
  int process = 0;
  std::vector<at::Device> devices = {};  // one per local rank; empty for the CPU
  std::function<std::chrono::milliseconds()> deadline = [] { return std::chrono::seconds(100); };
  std::function<void(const Failure&)> on_failure;
  std::function<std::optional<Failure>()> cause;
};

// For example "process 1 (ranks 2, 3)".
std::string process_text(int process, int num_processes, int num_ranks);

struct ArrivedMessage {
  Message message;
  Ready ready;
};

// Messages of a channel. Message k belongs to the k-th posted receive.
struct ArrivedMessages {
  std::deque<std::optional<ArrivedMessage>> messages;  // the front has number `first`
  std::uint64_t first = 0;
  std::uint64_t posted = 0;

  bool has(std::uint64_t number) const { return number - first < messages.size(); }
  ArrivedMessage take(std::uint64_t number);
};

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

  void connect(std::unique_ptr<Link> link);

  int num_ranks() const { return options_.num_ranks; }
  std::chrono::milliseconds deadline() const { return options_.deadline(); }
  int here() const { return options_.process; }
  int process_of(int rank) const { return rank / ranks_per_process_; }
  std::vector<int> ranks_here() const;
  at::Device device_of(int rank) const;
  const FirstFailure& failure() const { return failure_; }

  Inbox& inbox_of(int rank);
  void send(int source, int destination, ChannelKind kind, Message message);
  void send_to_process(int process, Frame frame);

  // Creates the group on first use. `id` is equal in all processes.
  GroupState& group(const std::string& id, const std::vector<int>& members);
  GroupState& world() { return *world_; }

  void fail(const Failure& failure) noexcept;

  // Adds text() to waits() for as long as it lives. Any thread may call text().
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
  // For example "rank 0 waits for 1RECV_B3 of step 4 from rank 2". Several with commas, or "".
  std::string waits() const;

  // From now on, tensors that the connections to other processes allocate count as memory of the
  // rank whose thread calls this. Only the first call has an effect, and only if there are several
  // processes.
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
  std::deque<Inbox> inboxes_;

  FirstFailure failure_;
  std::recursive_mutex failing_mutex_;  // on_failure may call fail() again
  bool failing_ = false;

  mutable std::mutex groups_mutex_;
  std::map<std::string, std::unique_ptr<GroupState>> groups_;
  // A frame for a group that no local rank has created yet.
  struct EarlyFrame {
    int from_process = 0;
    Frame frame;
    Ready ready;
  };
  std::map<std::string, std::vector<EarlyFrame>> early_;
  GroupState* world_;

  mutable std::mutex counting_mutex_;
  std::atomic<bool> is_counting_{false};
  std::shared_ptr<c10::ThreadLocalDebugInfo> counts_as_;

  mutable std::mutex waiting_mutex_;
  std::uint64_t next_waiting_ = 0;
  std::map<std::uint64_t, std::function<std::string()>> waiting_;

  std::unique_ptr<Link> link_;  // last, because its threads use the members above
};

std::vector<std::unique_ptr<Transport>> make_endpoints(std::shared_ptr<ProcessRanks> process);

}  // namespace sluice
