#include "job/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "job/private_file.h"
#include "job/sha256.h"
#include "job/socket.h"
#include "job/wait_notice.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPause{20};
constexpr milliseconds kTry{300}, kSlice{500};
// On a busy machine processes take seconds to load.
constexpr milliseconds kSayWhoIsMissing{20'000};
// How long an earlier job of the same name may occupy our process number until it has met.
constexpr milliseconds kEarlierJob{10'000};
// A failed earlier job may have left its file. How long to wait until ours replaces it.
constexpr milliseconds kAfterFailure{2000};

milliseconds left(Deadline deadline) {
  return std::max(milliseconds(0),
                  std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

[[noreturn]] void refuse(const std::string& what, const std::string& where,
                         const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = where, .remedy = remedy});
}

// ---- text of a file or torchrun's store: "sluice-store 1", host, port, secret ----
constexpr const char* kFormat = "sluice-store 1";

std::string notice_of(const JobStore& store) {
  return join({kFormat, store.address.host, std::to_string(store.address.port), store.secret},
              "\n");
}

bool read_notice(const std::string& text, JobStore& store) {
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() != 4 || lines[0] != kFormat || lines[3].empty()) return false;
  const char* const end = lines[2].data() + lines[2].size();
  const auto [rest, error] = std::from_chars(lines[2].data(), end, store.address.port);
  if (error != std::errc() || rest != end) return false;
  store.address.host = lines[1];
  store.secret = lines[3];
  return true;
}

std::vector<std::string> keys_of_all(const ProcessLayout& layout) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(layout.num_processes));
  for (int process = 0; process < layout.num_processes; ++process)
    keys.push_back(arrival_key(process));
  return keys;
}

// Returns false if another process already has this number.
bool arrive(StoreClient& client, int process) {
  const std::string own = random_secret();
  return client.compare_set(arrival_key(process), "", own) == own;
}

[[noreturn]] void fail_twice(const StoreAddress& address, int process) {
  refuse(formatted("process {} of this job has already joined", process),
         host_and_port(address.host, address.port),
         "give every process a different RANK, and every job a different MASTER_PORT");
}

std::string missing_text(StoreClient& client, const ProcessLayout& layout) {
  std::vector<std::string> missing;
  for (int process = 0; process < layout.num_processes; ++process) {
    if (!client.has({arrival_key(process)})) missing.push_back(std::to_string(process));
  }
  const std::size_t count = missing.size();
  constexpr std::size_t kShown = 8;
  missing.resize(std::min(count, kShown));
  return formatted("{}{}{} of {}", count == 1 ? "process " : "processes ", join(missing, ", "),
                   count > kShown ? formatted(" and {} more", count - kShown) : "",
                   layout.num_processes);
}

std::string place_of(const StoreClient& client) {
  return host_and_port(client.address().host, client.address().port);
}

[[noreturn]] void fail_missing(StoreClient& client, const ProcessLayout& layout,
                               milliseconds timeout, const WaitNotice& notice) {
  throw Error(
      ErrorKind::kPeer,
      {.what = missing_text(client, layout) + " did not join within " +
               shortest(static_cast<double>(timeout.count()) / 1000) + " s" + notice.refused_text(),
       .where = place_of(client),
       .remedy = "check that they were started, or raise comm.init_timeout_seconds"});
}

void say_who_is_missing(WaitNotice& notice, StoreClient& client, const ProcessLayout& layout) {
  notice.tick([&] { return missing_text(client, layout) + " at " + place_of(client); });
}

void meet(const JobStore& store, const ProcessLayout& layout, Deadline deadline,
          milliseconds timeout) {
  WaitNotice notice(store.server.get(), kSayWhoIsMissing);
  StoreClient client(store.address, store.secret, left(deadline));
  if (!arrive(client, layout.process)) fail_twice(store.address, layout.process);
  while (!client.wait(keys_of_all(layout), std::min(kSlice, left(deadline)))) {
    if (Clock::now() >= deadline) fail_missing(client, layout, timeout, notice);
    say_who_is_missing(notice, client, layout);
  }
}

// ---- one machine: a private file ----

// Returns the process id of MPICH's mpiexec proxy among this process's ancestors, or 0. All ranks
// that one mpiexec starts on this machine have the same proxy, so its id names their common file.
pid_t mpich_proxy() {
  for (pid_t pid = ::getppid(); pid > 1;) {
    std::ifstream status(formatted("/proc/{}/status", pid));
    std::string word, name;
    pid_t parent = 0;
    while (status >> word) {
      if (word == "Name:") status >> name;
      if (word == "PPid:") {
        status >> parent;
        break;
      }
    }
    if (name.starts_with("hydra_pmi")) return pid;
    pid = parent;
  }
  return 0;
}

std::string job_name(const LaunchEnvironment& environment) {
  std::string name = environment.job;
  if (name.empty() && environment.master_port > 0) {
    const std::string& address = environment.master_address;
    name = formatted("{}-{}", address.empty() || is_loopback(address) ? "local" : address,
                     environment.master_port);
  }
  if (name.empty() && environment.launcher == Launcher::kMpich) {
    if (const pid_t proxy = mpich_proxy()) name = "mpich-" + std::to_string(proxy);
  }
  if (name.empty()) {
    refuse(
        to_text(environment.launcher) + " gives this job no name by which its processes can meet",
        "environment", "set MASTER_ADDR=127.0.0.1 and MASTER_PORT to an unused number");
  }
  if (environment.restart > 0) name += "-restart-" + std::to_string(environment.restart);
  return name;
}

bool is_served(const JobStore& store) {
  try {
    StoreClient client(store.address, store.secret, kTry);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void await_earlier_job(const std::string& path, Deadline deadline) {
  const Deadline patience = std::min(deadline, deadline_in(kEarlierJob));
  for (;;) {
    JobStore earlier;
    const auto text = read_private_file(path);
    if (!text || !read_notice(*text, earlier) || !is_served(earlier)) return;
    if (Clock::now() >= patience) {
      refuse("another job of the same name waits for its processes on this machine", path,
             "give every job a different MASTER_PORT, or end the other job");
    }
    std::this_thread::sleep_for(kPause);
  }
}

StoreServerOptions server_options(const std::string& secret) {
  StoreServerOptions options;
  options.secret = secret;
  options.process = 0;
  options.name = formatted("process 0, pid {} on {}", ::getpid(), machine_name());
  return options;
}

JobStore serve(const std::string& host) {
  StoreServerOptions options = server_options(random_secret());
  options.host = host;
  JobStore store;
  store.secret = options.secret;
  store.server = std::make_unique<StoreServer>(std::move(options));
  store.address = store.server->address();
  return store;
}

JobStore serve_by_file(const LaunchEnvironment& environment, Deadline deadline,
                       milliseconds timeout) {
  const std::string path = private_path(job_name(environment));
  await_earlier_job(path, deadline);
  JobStore store = serve("127.0.0.1");
  const PrivateFile file(path, notice_of(store));
  meet(store, environment.layout, deadline, timeout);
  return store;
}

// The private file may be of an earlier job, whose store may even still run. A store counts only
// once all processes have met there.
class FileReader {
 public:
  FileReader(const LaunchEnvironment& environment, Deadline deadline, milliseconds timeout)
      : layout_(environment.layout),
        path_(private_path(job_name(environment))),
        deadline_(deadline),
        timeout_(timeout) {}

  JobStore join() {
    do {
      JobStore store;
      text_ = read_private_file(path_);
      if (text_ && read_notice(*text_, store) && meets(store)) return store;
      if (!rank_already_taken_) duplicate_since_ = Clock::now();
      if (Clock::now() - duplicate_since_ > kEarlierJob) break;
      std::this_thread::sleep_for(kPause);
    } while (Clock::now() < deadline_);
    if (rank_already_taken_) fail_twice(last_, layout_.process);
    throw Error(ErrorKind::kPeer,
                {.what = "process 0 of this job did not join within " +
                         shortest(static_cast<double>(timeout_.count()) / 1000) + " s",
                 .where = path_,
                 .remedy = "check that it was started, or raise comm.init_timeout_seconds"});
  }

 private:
  bool has_changed() const { return read_private_file(path_) != text_; }

  bool meets(const JobStore& store) {
    std::unique_ptr<StoreClient> client;
    try {
      client = std::make_unique<StoreClient>(store.address, store.secret,
                                             std::min(kTry, left(deadline_)));
      last_ = store.address;
      rank_already_taken_ = !arrive(*client, layout_.process);
      if (rank_already_taken_) return false;
    } catch (const Error&) {
      rank_already_taken_ = false;
      return false;
    }
    try {
      WaitNotice notice(nullptr, kSayWhoIsMissing);
      while (!client->wait(keys_of_all(layout_), std::min(kSlice, left(deadline_)))) {
        // If the file has changed, we are connected to an earlier job.
        if (text_ && has_changed() && !client->wait(keys_of_all(layout_), kSlice)) return false;
        if (Clock::now() >= deadline_) fail_missing(*client, layout_, timeout_, notice);
        say_who_is_missing(notice, *client, layout_);
      }
      return true;
    } catch (const Error&) {
      if (Clock::now() >= deadline_) throw;
      // Wait for our job's file, in case we were connected to an earlier job.
      const Deadline patience = std::min(deadline_, deadline_in(kAfterFailure));
      for (; Clock::now() < patience; std::this_thread::sleep_for(kPause)) {
        const auto text = read_private_file(path_);
        if (text && text != text_) return false;
      }
      throw;
    }
  }

  const ProcessLayout layout_;
  const std::string path_;
  const Deadline deadline_;
  const milliseconds timeout_;
  std::optional<std::string> text_;
  StoreAddress last_;
  bool rank_already_taken_ = false;
  Deadline duplicate_since_ = Clock::now();
};

std::string shared_secret(const LaunchEnvironment& environment) {
  if (environment.secret.empty()) {
    refuse("processes on several machines need a shared secret", "environment",
           "set SLUICE_JOB_SECRET to the same random text in every process, for example from "
           "'openssl rand -hex 32'");
  }
  if (environment.layout.process == 0) warn_of_short_secret(environment.secret);
  // Other jobs and restarts get other secrets, so they cannot join this job.
  const std::string job = formatted("job {}, restart {}", environment.job, environment.restart);
  return hex(bytes_of(hmac_sha256(environment.secret, job)));
}

JobStore join_at_master(const LaunchEnvironment& environment) {
  if (environment.master_address.empty() || environment.master_port == 0) {
    refuse("the processes have no address where they can meet", "environment",
           "set MASTER_ADDR and MASTER_PORT to the machine of process 0 and a free port");
  }
  const std::string secret = shared_secret(environment);
  JobStore store;
  store.address = {environment.master_address, environment.master_port};
  store.secret = secret;
  if (environment.layout.process == 0) {
    store.server = serve_at(store.address, server_options(secret));
    store.address = store.server->address();
  }
  return store;
}

JobStore join_by_board(const LaunchEnvironment& environment, NoticeBoard& board,
                       Deadline deadline) {
  JobStore store;
  if (environment.layout.process != 0) {
    if (read_notice(board.get(left(deadline)), store)) return store;
    throw Error(ErrorKind::kPeer, {.what = "process 0 has stored a line that cannot be read",
                                   .where = "torchrun's store",
                                   .remedy = "run the same build of sluice in every process"});
  }
  const bool alone = environment.one_machine();
  store = serve(alone ? "127.0.0.1" : "");
  if (!alone) {
    JobStore told;
    told.address = {environment.master_address, store.address.port};
    told.secret = store.secret;
    board.put(notice_of(told));
  } else {
    board.put(notice_of(store));
  }
  return store;
}

}  // namespace

std::string arrival_key(int process) { return "sluice/arrived/" + std::to_string(process); }

void warn_of_short_secret(const std::string& secret) {
  constexpr std::size_t kLeast = 16;
  if (secret.size() >= kLeast) return;
  log_warning("the secret of the job has " +
              counted(static_cast<std::int64_t>(secret.size()), "character") +
              ", and can be guessed; use a random one, for example from 'openssl rand -hex 32'");
}

std::unique_ptr<StoreServer> serve_at(const StoreAddress& at, StoreServerOptions options) {
  options.host = at.host;
  options.port = at.port;
  // The host's name may mean loopback here and another address elsewhere, so listen on all.
  if (!is_loopback(at.host)) options.host.clear();
  return std::make_unique<StoreServer>(std::move(options));
}

JobStore join_job(const LaunchEnvironment& environment, milliseconds timeout, NoticeBoard* board) {
  const Deadline deadline = deadline_in(timeout);
  const ProcessLayout& layout = environment.layout;
  JobStore store;
  if (environment.launcher == Launcher::kSluice) {
    store.address = {environment.master_address, environment.master_port};
    store.secret = environment.secret;
  } else if (layout.num_processes == 1) {
    return serve("127.0.0.1");
  } else if (environment.launcher == Launcher::kTorchrun) {
    if (!board)
      throw Error(ErrorKind::kInternal, {.what = "under torchrun its store is needed to meet"});
    store = join_by_board(environment, *board, deadline);
  } else if (environment.one_machine()) {
    if (layout.process == 0 && !environment.secret.empty()) {
      log_info(
          "SLUICE_JOB_SECRET is not used: the processes of one machine meet by a private file");
    }
    return layout.process == 0 ? serve_by_file(environment, deadline, timeout)
                               : FileReader(environment, deadline, timeout).join();
  } else {
    store = join_at_master(environment);
  }
  meet(store, layout, deadline, timeout);
  return store;
}

}  // namespace sluice
