// The launchers of a job on several machines: they start together, and agree on what comes after an
// attempt.
//
// Owns: a connection to the store of the attempt, which node 0 serves. Does not own: the store.
//
// Invariants:
//  1. All nodes hear the same verdict, or, where node 0 is gone, none.
// Thread-safety: for one thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launch/store_client.h"
#include "launch/supervisor.h"

namespace sluice {

struct NodeGroupOptions {
  int num_nodes = 1;
  int node = 0;
  int processes = 1;                        // on every node, the same
  std::chrono::milliseconds meet{300'000};  // for all nodes to come
  std::chrono::milliseconds agree{30'000};  // for all nodes to end an attempt
  // Called again and again during every wait; may throw, which ends it.
  std::function<void()> while_waiting = [] {};
};

struct Verdict {
  int exit_code = 0;
  bool again = false;
  std::string what;
};

class NodeGroup {
 public:
  // Waits for all nodes. Throws Error(kPeer) naming those that do not come, Error(kUsage) where two
  // have one number or start another number of processes.
  NodeGroup(const StoreAddress& address, const std::string& secret, NodeGroupOptions options);

  // Node 0: the attempt has ended here; waits for the others, and decides. failed_process: the one
  // that the job's server knows to have failed first, -1 for none. may_repeat: of an exit code.
  Verdict decide(const JobOutcome& here, int failed_process, bool restarts_left);
  // Any other node: nothing when node 0 is gone.
  std::optional<Verdict> hear(const JobOutcome& here);

 private:
  void require_alike(const std::string& own, const std::string& where,
                     std::chrono::steady_clock::time_point deadline);
  // Node 0, which ends the store next: for a moment, until all others have set it.
  void await_others(const std::string& what);
  bool await(const std::string& key, std::chrono::milliseconds timeout);
  std::string key(const std::string& what, int node) const;

  const NodeGroupOptions options_;
  std::unique_ptr<StoreClient> client_;
};

// Whether another attempt may do what one that ended with this code did not: what was lost, ended
// by a signal, out of memory or a defect; not what is wrong with the input or was asked for.
bool is_worth_repeating(int exit_code);

}  // namespace sluice
