#include "launch/launch_job.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "job/launch_environment.h"
#include "job/rendezvous.h"
#include "job/sha256.h"
#include "launch/machine_group.h"
#include "launch/supervisor.h"
#include "sluice/error.h"

extern char** environ;

namespace sluice {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGrace{500};
constexpr milliseconds kLastOutput{1000};

struct StopRequest {
  int signal;
};

class Attempt {
 public:
  Attempt(const LaunchOptions& options, LaunchSignals& signals, int restart)
      : options_(options), signals_(signals), restart_(restart) {
    meet();
  }

  int restart() const { return restart_; }

  Verdict run() {
    OutputMerger output;
    Supervisor& supervisor =
        supervisor_.emplace(signals_, server_.get(), first_process(), options_.patience,
                            options_.must_join && num_processes() > 1
                                ? [this](int process) { return has_joined(process); }
                                : Supervisor::HasJoined());
    if (machines_) machines_->watch([&supervisor] { supervisor.process_was_lost(); });
    for (int local = 0; local < options_.processes; ++local) start(supervisor, output, local);
    output.start();
    const JobOutcome outcome = supervisor.run();
    output.finish(kLastOutput);
    const bool asked_for = outcome.stopped && outcome.exit_code > 128;
    if (!outcome.what.empty() && !asked_for && !output.has_shown_error()) say(outcome);
    return verdict_of(outcome);
  }

 private:
  int first_process() const { return options_.node * options_.processes; }
  int num_processes() const { return options_.num_nodes * options_.processes; }
  bool is_alone() const { return options_.num_nodes == 1; }

  bool restarts_left() const { return restart_ < options_.max_restarts; }

  void meet() {
    StoreServerOptions server;
    server.name = formatted("sluice launch, pid {} on {}", ::getpid(), machine_name());
    server.grace = kGrace;
    if (is_alone()) {
      secret_ = server.secret = random_secret();
      server_ = std::make_unique<StoreServer>(server);
      address_ = server_->address();
      return;
    }
    // Each attempt has its own secret, so that leftovers of a failed attempt cannot join.
    const auto secret_of = [this](int restart) {
      return hex(bytes_of(
          hmac_sha256(options_.secret, "sluice launch, restart " + std::to_string(restart))));
    };
    address_ = options_.meeting;
    if (options_.node == 0) {
      server.secret = secret_of(restart_);
      server_ = serve_at(options_.meeting, server);
      address_ = server_->address();
    }
    machines_.emplace(address_, MachineGroupOptions{.num_machines = options_.num_nodes,
                                                    .machine = options_.node,
                                                    .where = host_and_port(options_.meeting.host,
                                                                           options_.meeting.port),
                                                    .processes = options_.processes,
                                                    .restart = restart_,
                                                    .max_restarts = options_.max_restarts,
                                                    .secret_of = secret_of,
                                                    .server = server_.get(),
                                                    .heartbeat = options_.heartbeat,
                                                    .meet = options_.meeting_timeout,
                                                    .while_waiting = [this] { hear_signals(); }});
    restart_ = machines_->restart();
    secret_ = secret_of(restart_);
  }

  bool has_joined(int process) {
    const std::string key = arrival_key(process);
    return server_ ? server_->has(key) : machines_->has_key_or_lost_machine0(key);
  }

  void hear_signals() {
    while (const auto signal = signals_.next(std::chrono::steady_clock::now())) {
      if (*signal == SIGTSTP) signals_.stop_here();
      if (machines_) continue;
      if (*signal == SIGINT || *signal == SIGTERM || *signal == SIGHUP) throw StopRequest{*signal};
    }
  }

  std::vector<std::string> environment_of(int local) const {
    const std::map<std::string, std::string> own = {
        {"RANK", std::to_string(first_process() + local)},
        {"LOCAL_RANK", std::to_string(local)},
        {"WORLD_SIZE", std::to_string(num_processes())},
        {"LOCAL_WORLD_SIZE", std::to_string(options_.processes)},
        {"MASTER_ADDR", address_.host},
        {"MASTER_PORT", std::to_string(address_.port)},
        {"SLUICE_JOB_SECRET", secret_},
        {kLaunchRestartVariable, std::to_string(restart_)}};
    std::vector<std::string> all;
    all.reserve(own.size());
    for (const auto& [name, value] : own) all.emplace_back(name).append("=").append(value);
    for (char** entry = environ; entry && *entry; ++entry) {
      const std::string text(*entry);
      if (!own.contains(text.substr(0, text.find('=')))) all.push_back(text);
    }
    return all;
  }

  // Without logs, process 0 writes directly to the launcher's stdout. The stdout of others goes to
  // stderr.
  void start(Supervisor& supervisor, OutputMerger& output, int local) {
    const int process = first_process() + local;
    std::shared_ptr<OutputMerger::Log> log;
    if (!options_.log_folder.empty()) {
      log = OutputMerger::open_log(formatted("{}/rank_{}.log", options_.log_folder, process),
                                   restart_ == 0);
    }
    Socket own_output;
    if (process != 0) own_output = Socket(output.add(log ? -1 : STDERR_FILENO, true, log));
    if (process == 0 && log) own_output = Socket(output.add(STDOUT_FILENO, false, log));
    const Socket errors(output.add(STDERR_FILENO, true, log));
    ChildOptions child;
    child.program = options_.program;
    child.arguments = options_.command;
    child.environment = environment_of(local);
    child.output = own_output ? own_output.descriptor() : STDOUT_FILENO;
    child.errors = errors.descriptor();
    child.blocked_signals = signals_.inherited();
    supervisor.start(child);
  }

  static void say(const JobOutcome& outcome) {
    const Error line(
        ErrorKind::kPeer,
        {.what = outcome.what,
         .where = "command 'sluice launch'",
         .remedy = outcome.never_joined ? "launch a program that calls sluice::run in every process"
                                        : "check its last output and whether the system ended it"});
    std::fprintf(stderr, "sluice: error: %s\n", line.what());
  }

  Verdict verdict_of(const JobOutcome& outcome) {
    if (is_alone()) {
      return {.exit_code = outcome.exit_code,
              .again = restarts_left() && !outcome.stopped && is_retryable(outcome.exit_code),
              .what = outcome.what};
    }
    if (options_.node == 0) {
      const auto failure = server_->failure();
      return machines_->decide(outcome, failure ? failure->process : -1, restarts_left());
    }
    if (const auto verdict = machines_->hear(outcome)) return *verdict;
    // Machine 0 is lost. Decide by the rules that it would apply.
    const int lost = static_cast<int>(ErrorKind::kPeer);
    const int exit_code = outcome.exit_code != 0 ? outcome.exit_code : lost;
    const bool again = restarts_left() && !outcome.stopped && is_retryable(exit_code);
    if (!again) log_warning("machine 0 is lost");
    return {.exit_code = exit_code, .again = again, .what = "machine 0 is lost"};
  }

  const LaunchOptions& options_;
  LaunchSignals& signals_;
  int restart_;
  std::string secret_;
  StoreAddress address_;
  std::unique_ptr<StoreServer> server_;
  std::optional<Supervisor> supervisor_;
  std::optional<MachineGroup> machines_;  // calls supervisor_, so it is destroyed first
};

}  // namespace

int launch_job(const LaunchOptions& options) {
  if (!options.log_folder.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(options.log_folder, failed);
    if (failed) {
      throw Error(ErrorKind::kUsage,
                  {.what = "cannot create the folder of logs: " + failed.message(),
                   .where = options.log_folder,
                   .remedy = "name another with --log-dir"});
    }
  }
  if (options.num_nodes > 1) warn_of_short_secret(options.secret);
  LaunchSignals signals;
  try {
    for (int restart = 0;; ++restart) {
      Attempt attempt(options, signals, restart);
      restart = attempt.restart();
      const Verdict verdict = attempt.run();
      if (!verdict.again) return verdict.exit_code;
      log_warning(
          formatted("{}: restart {} of {}", verdict.what, restart + 1, options.max_restarts));
    }
  } catch (const StopRequest& request) {
    return 128 + request.signal;
  }
}

}  // namespace sluice
