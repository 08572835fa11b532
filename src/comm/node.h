// What the ranks of one node share: what has arrived for them, their groups, the first failure, and
// the wire to the other nodes. Ranks that are threads of one process are a node without a wire.
//
// Owns: inboxes, groups, the failure, the wire. Does not own: what a rank does with a message
// (node_transport.cpp), how frames move (wire.h).
//
// Invariants:
//  1. What comes over the wire lies in the same inboxes and groups as what ranks here give each
//     other: order, deadlines and the end of waits are one code.
//  2. The first failure wins, is told to on_failure before any wait ends, and reaches every rank
//     here and, as far as the wire works, every other node.
// Thread-safety: any thread may call anything but connect().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
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
#include "comm/wire.h"
#include "sluice/parts/transport.h"

namespace sluice {

struct NodeOptions {
  int num_ranks = 1;
  int num_nodes = 1;  // divides the ranks; node n has ranks n k .. n k + k - 1
  int node = 0;       // this one
  std::function<std::chrono::milliseconds()> deadline = [] { return std::chrono::seconds(100); };
  std::function<void(const Failure&)> on_failure;
  std::function<std::optional<Failure>()> cause;
};

// "process 1 (ranks 2, 3)", of a node among num_nodes with num_ranks ranks.
std::string node_text(int node, int num_nodes, int num_ranks);

// One channel, seen from its receiver. Message k of the channel belongs to the k-th post.
struct Channel {
  std::deque<std::optional<Message>> messages;  // arrived and not yet taken, from number `first`
  std::uint64_t first = 0;
  std::uint64_t posted = 0;

  bool has(std::uint64_t number) const { return number - first < messages.size(); }
  Message take(std::uint64_t number);
};

// What arrives at one rank.
struct Inbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<int, ChannelKind>, Channel> channels;
};

class Node final : public WireReceiver {
 public:
  explicit Node(NodeOptions options);
  ~Node() override;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Once, before ranks use the node.
  void connect(std::unique_ptr<Wire> wire);

  int num_ranks() const { return options_.num_ranks; }
  std::chrono::milliseconds deadline() const { return options_.deadline(); }
  int here() const { return options_.node; }
  int node_of(int rank) const { return rank / ranks_per_node_; }
  std::vector<int> ranks_here() const;
  const FirstFailure& failure() const { return failure_; }

  // Of a rank that is here.
  Inbox& inbox_of(int rank);
  void send(int source, int destination, ChannelKind kind, Message message);
  void send_to_node(int node, Frame frame);

  // The group with this id, which is the same on all nodes; made by the first who asks.
  GroupState& group(const std::string& id, const std::vector<int>& members);
  GroupState& world() { return *world_; }

  // The first failure of this node: ends every wait. Later ones change nothing.
  void fail(const Failure& failure) noexcept;

  // While it lives, waits() has `text()`, which may be called on any thread.
  class Waiting {
   public:
    Waiting(Node& node, std::function<std::string()> text);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Node& node_;
    std::map<std::uint64_t, std::function<std::string()>>::iterator entry_;
  };
  // What ranks here wait for now: "rank 0 waits for 1RECV_B3 of step 4 from rank 2", one after
  // another with ", "; "" for nothing.
  std::string waits() const;

  // Called by the ranks here.
  void count_as_this_thread();
  std::shared_ptr<c10::ThreadLocalDebugInfo> counts_as() const override;

  void check(int from_node, const FrameOutline& outline) const override;
  void deliver(int from_node, Frame frame) override;
  void aborted(const Failure& failure) noexcept override { fail(failure); }
  void wrong(int from_node, const std::exception_ptr& error) noexcept override;
  void lost(int from_node, const std::string& how) noexcept override;

 private:
  void put(int source, int destination, ChannelKind kind, Message message);
  std::string name_of(int node) const;

  const NodeOptions options_;
  const int ranks_per_node_;
  std::deque<Inbox> inboxes_;  // of ranks_here()

  FirstFailure failure_;
  std::recursive_mutex failing_mutex_;  // on_failure may come back
  bool failing_ = false;

  mutable std::mutex groups_mutex_;
  std::map<std::string, std::unique_ptr<GroupState>> groups_;
  // What came for groups that no rank here has made yet.
  std::map<std::string, std::vector<std::pair<int, Frame>>> early_;
  GroupState* world_;

  mutable std::mutex counting_mutex_;
  std::atomic<bool> is_counting_{false};
  std::shared_ptr<c10::ThreadLocalDebugInfo> counts_as_;

  mutable std::mutex waiting_mutex_;
  std::uint64_t next_waiting_ = 0;
  std::map<std::uint64_t, std::function<std::string()>> waiting_;

  std::unique_ptr<Wire> wire_;  // its threads use all of the above
};

// Endpoints of the ranks of a node, in their order.
std::vector<std::unique_ptr<Transport>> make_endpoints(std::shared_ptr<Node> node);

}  // namespace sluice
