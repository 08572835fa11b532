// The launchers of a job on several machines: they start together, and agree on the next step after
// an attempt.
//
// Owns: a connection to the store of the attempt, which machine 0 serves, and a control line to it,
// by which each launcher notices that the other is gone. Does not own: the store.
//
// Invariants:
//  1. All machines receive the same verdict, or, if machine 0 is gone, none.
//  2. A launcher that was restarted, on a machine that came back, finds the attempt that the others
//     are at.
// Thread-safety: for one thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/control_line.h"
#include "launch/store_client.h"
#include "launch/store_server.h"
#include "launch/supervisor.h"
#include "launch/wait_notice.h"

namespace sluice {

struct MachineGroupOptions {
  int num_machines = 1;
  int machine = 0;
  std::string where;                  // they meet, for messages: "node0:29500"
  int processes = 1;                  // on every machine, the same
  int restart = 0, max_restarts = 0;  // attempt to start with, and the last one
  // Every attempt has a secret of its own.
  std::function<std::string(int restart)> secret_of;
  const StoreServer* server = nullptr;  // server of the store, which machine 0 serves
  std::chrono::milliseconds heartbeat{5000};
  std::chrono::milliseconds meet{300'000};  // for all machines to come
  std::chrono::milliseconds agree{30'000};  // for all machines to end an attempt
  // Called again and again during every wait; may throw, which ends it.
  std::function<void()> while_waiting = [] {};
};

struct Verdict {
  int exit_code = 0;
  bool again = false;
  std::string what;
};

class MachineGroup {
 public:
  // Waits for all machines, and says for whom when it takes long. Throws Error(kPeer) naming those
  // that do not come, Error(kUsage) where two have one number or start another number of processes.
  MachineGroup(const StoreAddress& address, MachineGroupOptions options);

  int restart() const { return restart_; }  // at which all have met
  // Any other machine than 0: from now on the launchers notice each other's end. on_loss: the job
  // has lost a process, maybe on another machine; called at most once, on a thread of its own.
  void watch(std::function<void()> on_loss);

  // True if this key is in the job's store, or machine 0, with the store, is gone.
  bool has_or_is_alone(const std::string& key) noexcept;

  // Machine 0: the attempt has ended here; waits for the others, and decides. failed_process: the
  // one that the job's server knows to have failed first, -1 for none. may_repeat: of an exit code.
  Verdict decide(const JobOutcome& here, int failed_process, bool restarts_left);
  // Any other machine: nothing when machine 0 is gone.
  std::optional<Verdict> hear(const JobOutcome& here);

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  void come(Deadline deadline);
  void require_alike(const std::string& own, Deadline deadline);
  [[noreturn]] void fail_missing();
  std::vector<std::string> missing();  // machines
  std::string missing_text();          // "machine 1 of 2"
  // Machine 0, which ends the store next: for a moment, until all others have set it.
  void await_others(const std::string& what);
  // False at the deadline, or as soon as it is no use to wait.
  bool await(const std::string& key, Deadline deadline, const std::function<bool()>& no_use);
  std::string key(const std::string& what, int machine) const;
  // The number under which a machine's launcher has its control line: above all processes of the
  // job.
  int line_of(int machine) const { return options_.num_machines * options_.processes + machine; }
  // Says so where it was not the first failure, which a process reports.
  bool is_lost(int machine) const;
  bool has_lost_machine0() const { return line_ && line_->has_lost_server(); }

  const MachineGroupOptions options_;
  const StoreAddress address_;
  WaitNotice notice_;
  int restart_ = 0;
  std::unique_ptr<StoreClient> client_;
  std::unique_ptr<ControlLine> line_;
};

// True if another attempt may do what one that ended with this code did not: what was lost, ended
// by a signal, out of memory or a defect; not what is wrong with the input or was asked for.
bool is_worth_repeating(int exit_code);

}  // namespace sluice
