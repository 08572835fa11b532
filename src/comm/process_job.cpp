#include "comm/process_job.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "base/cuda_driver.h"
#include "base/file.h"
#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/loopback_transports.h"
#include "comm/nccl_link.h"
#include "comm/nccl_plugin.h"
#include "comm/process_ranks.h"
#include "comm/process_transports.h"
#include "comm/torchrun_board.h"
#include "job/control_line.h"
#include "job/rendezvous.h"
#include "job/socket.h"
#include "sluice/parts/transport.h"

namespace sluice {
namespace {

// If a failure elsewhere breaks a wait here, how long to wait for the message with the cause.
constexpr std::chrono::milliseconds kPatience{1'500};
// After a failure, how long to wait for other processes to connect for a last save.
constexpr std::chrono::seconds kToKeep{20};
// How long the process that serves the store waits for others to end.
constexpr std::chrono::milliseconds kOthersToEnd{30'000};

// For example "process 1 (rank 2), pid 4711 on node7".
std::string name_of(const ProcessLayout& layout, int num_ranks) {
  return formatted("{}, pid {} on {}",
                   process_text(layout.process, layout.num_processes, num_ranks), getpid(),
                   machine_name());
}

class Endpoints {
 public:
  void add(Transport* endpoint) {
    const std::lock_guard lock(mutex_);
    live_.insert(endpoint);
  }
  void remove(Transport* endpoint) {
    const std::lock_guard lock(mutex_);
    live_.erase(endpoint);
  }
  void abort(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    for (Transport* endpoint : live_) endpoint->abort(failure);
  }
  std::string waits() {
    const std::lock_guard lock(mutex_);
    return live_.empty() ? "" : (*live_.begin())->waits();
  }

 private:
  std::mutex mutex_;
  std::set<Transport*> live_;
};

class Listed final : public Transport {
 public:
  Listed(std::unique_ptr<Transport> endpoint, std::shared_ptr<Endpoints> list)
      : endpoint_(std::move(endpoint)), list_(std::move(list)) {
    list_->add(endpoint_.get());
  }
  ~Listed() override { list_->remove(endpoint_.get()); }

  int rank() const override { return endpoint_->rank(); }
  int size() const override { return endpoint_->size(); }
  void send(int destination, ChannelKind kind, Message message) override {
    endpoint_->send(destination, kind, std::move(message));
  }
  Ticket post_receive(int source, ChannelKind kind, const MessageTag& tag,
                      const std::optional<ExpectedTensors>& tensors) override {
    return endpoint_->post_receive(source, kind, tag, tensors);
  }
  bool has_arrived(Ticket ticket) const override { return endpoint_->has_arrived(ticket); }
  Message wait(Ticket ticket) override { return endpoint_->wait(ticket); }
  at::Device device() const override { return endpoint_->device(); }
  Group world() const override { return endpoint_->world(); }
  void abort(const Failure& failure) noexcept override { endpoint_->abort(failure); }
  std::optional<Failure> failure() const override { return endpoint_->failure(); }
  std::string waits() const override { return endpoint_->waits(); }

 private:
  std::unique_ptr<Transport> endpoint_;
  std::shared_ptr<Endpoints> list_;
};

// Stores for the later jobs of this process, served until the other processes have ended. Keys have
// the process number for tests, which run several processes in one.
class MetStores {
 public:
  MetStores() = default;
  ~MetStores() {
    for (const auto& [key, store] : stores_)
      if (store->server) store->server->wait_for_lines(kOthersToEnd);
  }
  MetStores(const MetStores&) = delete;
  MetStores& operator=(const MetStores&) = delete;

  std::shared_ptr<JobStore> find(const LaunchEnvironment& environment) {
    const std::lock_guard lock(mutex_);
    const auto found = stores_.find(key_of(environment));
    return found == stores_.end() ? nullptr : found->second;
  }
  void keep(const LaunchEnvironment& environment, std::shared_ptr<JobStore> store) {
    const std::lock_guard lock(mutex_);
    stores_[key_of(environment)] = std::move(store);
  }
  void forget(const LaunchEnvironment& environment) {
    const std::lock_guard lock(mutex_);
    stores_.erase(key_of(environment));
  }

 private:
  using Key = std::tuple<std::string, int, std::string, int>;
  static Key key_of(const LaunchEnvironment& environment) {
    return {environment.master_address, environment.master_port, environment.job,
            environment.layout.process};
  }

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<JobStore>> stores_;
};

MetStores& met_stores() {
  static MetStores stores;
  return stores;
}

JobFailure in_job(const Failure& failure, int process) {
  return {
      .process = process, .rank = failure.rank, .kind = failure.kind, .message = failure.message};
}

Failure of_rank(const JobFailure& failure) { return {failure.rank, failure.kind, failure.message}; }

}  // namespace

struct ProcessJob::Impl {
  LaunchEnvironment environment;
  ProcessJobOptions options;
  RankDevices devices;
  std::shared_ptr<Endpoints> endpoints = std::make_shared<Endpoints>();
  int num_connections = 0;
  const nccl::Table* nccl = nullptr;

  std::shared_ptr<JobStore> served;
  std::shared_ptr<StoreClient> store;
  std::atomic<bool> in_steps{false};
  std::string name;  // unique among the jobs of these processes
  std::mutex mutex;
  std::optional<JobFailure> first;
  std::unique_ptr<ControlLine> line;  // last, because its thread uses the members above

  bool is_alone() const { return environment.layout.num_processes == 1; }

  void join() {
    served = met_stores().find(environment);
    if (!served) {
      std::unique_ptr<NoticeBoard> board;
      if (environment.launcher == Launcher::kTorchrun)
        board = make_torchrun_board(environment, options.init_timeout);
      served = std::make_shared<JobStore>(join_job(environment, options.init_timeout, board.get()));
      // `sluice launch` serves one store for all jobs, even after failures.
      if (environment.launcher == Launcher::kSluice) met_stores().keep(environment, served);
    }
    store = std::make_shared<StoreClient>(served->address, served->secret, options.init_timeout);
    const std::string own = "jobs/" + std::to_string(environment.layout.process);
    const std::string number = "job " + std::to_string(store->add(own, 1));
    const std::string drawn = unique_suffix();
    name = store->compare_set(number, "", drawn);
    ControlLineOptions line_options;
    line_options.process = environment.layout.process;
    line_options.name = name_of(environment.layout, options.num_ranks);
    line_options.ranks = environment.layout.ranks_of(environment.layout.process, options.num_ranks);
    line_options.heartbeat = options.heartbeat;
    line_options.connect_timeout = options.init_timeout;
    line_options.status = [list = endpoints] { return list->waits(); };
    line_options.on_failure = [this](const JobFailure& failure) { hear(failure); };
    line_options.on_warning = [](const std::string& warning) { log_warning(warning); };
    const ProcessLayout& layout = environment.layout;
    line_options.first_here = layout.process - layout.local_process;
    line_options.num_here = layout.processes_on_machine;
    line = std::make_unique<ControlLine>(served->address, served->secret, std::move(line_options));
    require_matching();
    agree_on_nccl();
  }

  void require_matching() {
    const std::string own = formatted(
        "ranks = {}\ndevice = {}\n{}", options.num_ranks,
        c10::DeviceTypeName(devices.devices.front().type(), /*lower_case=*/true), options.alike);
    const std::string other = store->compare_set(name + "/alike", "", own);
    if (own == other) return;
    std::vector<std::string> here = split(own, '\n'), there = split(other, '\n');
    here.resize(std::max(here.size(), there.size()), "nothing");
    there.resize(here.size(), "nothing");
    const auto [mine, theirs] = std::mismatch(here.begin(), here.end(), there.begin());
    refuse_in_all(
        {ErrorKind::kUsage,
         {.what = formatted("the processes differ: '{}' in process {}, but '{}' in another", *mine,
                            environment.layout.process, *theirs),
          .where = "sluice::run",
          .remedy = "start the same program with the same arguments everywhere"}});
  }

  [[noreturn]] void refuse_in_all(const Error& error) {
    line->report(
        {.process = environment.layout.process, .kind = error.kind(), .message = error.what()});
    const std::optional<JobFailure> failure = line->wait_for_failure(kPatience);
    if (failure) throw Error(failure->kind, {.what = failure->message});
    throw error;
  }

  std::string reason_against_nccl() const {
    if (devices.devices.front().is_cpu()) return "ranks compute on the CPU";
    const int each = environment.layout.ranks_per_process(options.num_ranks);
    if (each > 1) return formatted("it needs one rank per process, but each process has {}", each);
    if (options.num_ranks > kMostNcclRanks)
      return formatted("it supports at most {} ranks, but the run has {}", kMostNcclRanks,
                       options.num_ranks);
    if (ranks_share_devices())
      return formatted("it needs a GPU for each rank, but {} lets ranks share one",
                       kShareDeviceVariable);
    return find_nccl().missing;
  }

  void agree_on_nccl() {
    const bool is_asked = options.transport == TransportKind::kNccl;
    const bool may_be =
        options.transport == TransportKind::kAuto && !devices.devices.front().is_cpu();
    if (!is_asked && !may_be) return;
    const auto key = [&](int process) { return formatted("{}/nccl/{}", name, process); };
    const std::string can = "NCCL ";
    const std::string reason = reason_against_nccl();
    store->set(key(environment.layout.process),
               reason.empty() ? can + find_nccl().version : reason);
    std::string against, of_first;
    for (int process = 0; process < environment.layout.num_processes && against.empty();
         ++process) {
      const std::string said = store->get(key(process), options.init_timeout);
      if (process == 0) of_first = said;
      if (said.rfind(can, 0) != 0)
        against = formatted("{} (process {})", said, process);
      else if (said != of_first)
        against = formatted("{} in process 0, {} in process {}", of_first, said, process);
    }
    if (against.empty()) {
      nccl = find_nccl().table;
      devices.why += "; transport: " + of_first;
      return;
    }
    if (!is_asked) {
      devices.why += "; transport: Gloo, not NCCL: " + against;
      return;
    }
    refuse_in_all({ErrorKind::kUsage,
                   {.what = "NCCL cannot be used: " + against,
                    .where = "parallelism.transport = \"nccl\"",
                    .remedy = "set it to \"auto\", which logs why it uses Gloo: docs/gpus.md"}});
  }

  void hear(const JobFailure& failure) {
    {
      const std::lock_guard lock(mutex);
      first = failure;
    }
    endpoints->abort(of_rank(failure));
  }

  void keep(const JobFailure& failure) {
    const std::lock_guard lock(mutex);
    if (!first) first = failure;
  }

  std::optional<JobFailure> heard() {
    const std::lock_guard lock(mutex);
    return first;
  }

  // The serving process connects to its own store by loopback. It therefore takes the local address
  // of its route to the next machine.
  std::string own_host() {
    const ProcessLayout& layout = environment.layout;
    const auto key = [&](int process) { return formatted("{}/host/{}", name, process); };
    if (!served->server) {
      store->set(key(layout.process), store->own_host());
      return store->own_host();
    }
    const int elsewhere = layout.process - layout.local_process + layout.processes_on_machine;
    return local_host_towards(store->get(key(elsewhere), options.init_timeout));
  }

  std::vector<std::unique_ptr<Transport>> connect_processes() {
    ProcessTransportOptions wired;
    wired.num_ranks = options.num_ranks;
    wired.num_processes = environment.layout.num_processes;
    wired.process = environment.layout.process;
    wired.devices = devices.devices;
    wired.nccl = nccl;
    wired.meet = num_connections == 0 ? options.init_timeout : kToKeep;
    wired.deadline = [this] { return in_steps ? options.deadline : options.init_timeout; };
    wired.name = formatted("{}/ranks {}", name, num_connections);
    wired.host = environment.one_machine() ? "" : own_host();
    wired.on_failure = [this](const Failure& failure) {
      line->report(in_job(failure, environment.layout.process));
    };
    wired.cause = [this]() -> std::optional<Failure> {
      const std::optional<JobFailure> failure = line->wait_for_failure(kPatience);
      return failure ? std::optional(of_rank(*failure)) : std::nullopt;
    };
    return make_process_transports(store, wired);
  }
};

ProcessJob::ProcessJob(LaunchEnvironment environment, const ProcessJobOptions& options)
    : impl_(std::make_unique<Impl>()) {
  require_even_ranks(environment.layout, options.num_ranks, environment.launcher);
  impl_->environment = std::move(environment);
  impl_->options = options;
  const ProcessLayout& layout = impl_->environment.layout;
  const int each = layout.ranks_per_process(options.num_ranks);
  impl_->devices = devices_of_ranks(
      options.device,
      {.first = layout.local_process * each, .count = each, .on_machine = ranks_on_machine()});
  if (!impl_->is_alone()) impl_->join();
}

ProcessJob::~ProcessJob() = default;

const LaunchEnvironment& ProcessJob::environment() const { return impl_->environment; }

std::vector<int> ProcessJob::ranks_here() const {
  const ProcessLayout& layout = impl_->environment.layout;
  return layout.ranks_of(layout.process, impl_->options.num_ranks);
}

const RankDevices& ProcessJob::devices() const { return impl_->devices; }
TransportKind ProcessJob::transport() const {
  if (impl_->nccl) return TransportKind::kNccl;
  const bool are_threads = impl_->is_alone() && impl_->options.transport != TransportKind::kGloo;
  return are_threads ? TransportKind::kThreads : TransportKind::kGloo;
}

int ProcessJob::ranks_on_machine() const {
  const ProcessLayout& layout = impl_->environment.layout;
  return layout.ranks_per_process(impl_->options.num_ranks) * layout.processes_on_machine;
}

std::vector<std::unique_ptr<Transport>> ProcessJob::connect() {
  Impl& impl = *impl_;
  if (impl.is_alone()) {
    const TransportOptions threads{
        .deadline = impl.in_steps ? impl.options.deadline
                                  : std::max(impl.options.init_timeout, impl.options.deadline),
        .devices = impl.devices.devices};
    return impl.options.transport == TransportKind::kGloo
               ? make_loopback_transports(impl.options.num_ranks, threads)
               : make_local_transports(impl.options.num_ranks, threads);
  }
  const auto throw_if_failed = [&] {
    const std::optional<JobFailure> failure = impl.heard();
    if (failure && impl.num_connections == 0)
      throw Error(failure->kind, {.what = failure->message});
  };
  throw_if_failed();
  std::vector<std::unique_ptr<Transport>> endpoints;
  try {
    for (auto& endpoint : impl.connect_processes())
      endpoints.push_back(std::make_unique<Listed>(std::move(endpoint), impl.endpoints));
  } catch (...) {
    throw_if_failed();  // prefer the cause
    throw;
  }
  throw_if_failed();
  ++impl.num_connections;
  return endpoints;
}

Error ProcessJob::agreed(const Error& own) noexcept {
  Impl& impl = *impl_;
  if (impl.is_alone()) return own;
  if (impl.environment.launcher != Launcher::kSluice) met_stores().forget(impl.environment);
  if (!impl.heard()) {
    impl.line->report(
        {.process = impl.environment.layout.process, .kind = own.kind(), .message = own.what()});
    const std::optional<JobFailure> told = impl.line->wait_for_failure(kPatience);
    if (told) impl.keep(*told);
  }
  const std::optional<JobFailure> failure = impl.heard();
  impl.store->outlive_failure();  // lets the processes use the store for a last save
  if (!failure || failure->message == own.what()) return own;
  return Error(failure->kind, {.what = failure->message});
}

bool ProcessJob::tells() const {
  const std::optional<JobFailure> failure = impl_->heard();
  return !failure || failure->teller == impl_->environment.layout.process;
}

void ProcessJob::report_hung(int rank, const std::string& what,
                             const std::string& remedy) noexcept {
  if (impl_->line) impl_->line->report_hung(rank, what, remedy);
}

void ProcessJob::steps_begin() { impl_->in_steps = true; }
const std::string& ProcessJob::name() const { return impl_->name; }

void ProcessJob::finish() noexcept {
  if (impl_->is_alone()) return;
  impl_->line->finish();
  met_stores().keep(impl_->environment, impl_->served);
}

}  // namespace sluice
