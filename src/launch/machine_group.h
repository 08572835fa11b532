// Lets the launchers of several machines start together and agree whether to restart after an
// attempt. A restarted launcher joins the current attempt.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/control_line.h"
#include "job/store_client.h"
#include "job/store_server.h"
#include "job/wait_notice.h"
#include "launch/supervisor.h"

namespace sluice {

struct MachineGroupOptions {
  int num_machines = 1;
  int machine = 0;
  std::string where;                  // of machine 0: "node0:29500"
  int processes = 1;                  // per machine, the same on all
  int restart = 0, max_restarts = 0;  // first and last attempt
  std::function<std::string(int restart)> secret_of;
  const StoreServer* server = nullptr;  // on machine 0 only
  std::chrono::milliseconds heartbeat{5000};
  std::chrono::milliseconds meet{300'000};
  std::chrono::milliseconds agree{30'000};
  // Called repeatedly during every wait. May throw.
  std::function<void()> while_waiting = [] {};
};

struct Verdict {
  int exit_code = 0;
  bool again = false;
  std::string what;
};

class MachineGroup {
 public:
  // Waits for all machines. Throws Error(kPeer) if some are missing, and Error(kUsage) if two have
  // contradictory options.
  MachineGroup(const StoreAddress& address, MachineGroupOptions options);

  int restart() const { return restart_; }
  // Not on machine 0. Calls `on_loss` at most once, on another thread, when the job has lost a
  // process on any machine.
  void watch(std::function<void()> on_loss);

  // True if the job's store has this key, or machine 0 is lost.
  bool has_key_or_lost_machine0(const std::string& key) noexcept;

  // Only on machine 0, after an attempt. `failed_process`: the first failure known to the server,
  // or -1.
  Verdict decide(const JobOutcome& here, int failed_process, bool restarts_left);
  // Called on machines other than 0. Waits for machine 0's verdict, whether the job restarts or
  // ends. Returns std::nullopt if machine 0 is lost.
  std::optional<Verdict> hear(const JobOutcome& here);

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  void come(Deadline deadline);
  void require_matching(const std::string& own, Deadline deadline);
  [[noreturn]] void fail_missing();
  std::vector<std::string> missing();
  std::string missing_text();
  // Waits briefly until all machines have set this key, because machine 0 will end the store.
  void await_others(const std::string& what);
  // Returns false at the deadline, or as soon as `no_use` returns true.
  bool await(const std::string& key, Deadline deadline, const std::function<bool()>& no_use);
  std::string key(const std::string& what, int machine) const;
  // Launchers use the process numbers above those of the job.
  int line_of(int machine) const { return options_.num_machines * options_.processes + machine; }
  bool is_lost(int machine) const;
  bool has_lost_machine0() const { return line_ && line_->has_lost_server(); }

  const MachineGroupOptions options_;
  const StoreAddress address_;
  WaitNotice notice_;
  int restart_ = 0;
  std::unique_ptr<StoreClient> client_;
  std::unique_ptr<ControlLine> line_;
};

// True for a lost process, a signal, out of memory or an internal error.
bool is_retryable(int exit_code);

}  // namespace sluice
