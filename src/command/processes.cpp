#include "command/processes.h"

#include <algorithm>
#include <ctime>
#include <limits>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/packer.h"
#include "command/job.h"
#include "command/message_times.h"
#include "config/machine_memory.h"
#include "config/planned_device.h"
#include "engine/rank_errors.h"
#include "engine/rank_threads.h"
#include "launch/reported_elsewhere.h"
#include "plan/predict/layer_times.h"

namespace sluice {
namespace {

// Limit in one process, where a failing rank ends the others' waits. Only a slow disk or a large
// stage takes long.
constexpr std::chrono::hours kLongestWait{1};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000.0 * seconds));
}

// Writes the file that torchrun reads (torch.distributed.elastic.multiprocessing.errors).
void write_error_file(const ProcessJob& processes, const Error& failure) {
  const std::string& path = processes.environment().error_file;
  if (path.empty()) return;
  const Json error = {
      {"message",
       {{"extraInfo", {{"py_callstack", ""}, {"timestamp", std::to_string(std::time(nullptr))}}},
        {"message", failure.what()}}}};
  if (const int failed = replace_file(path, error.dump()))
    log_warning("cannot write torchrun's error file: " + errno_text(failed) + "; " + path);
}

constexpr int kMeasuringRank = 0;

std::string to_bytes(const MeasuredMachine& measured) {
  return Packer()
      .add(measured.times)
      .add(measured.memory_per_rank)
      .add(measured.threads_per_rank)
      .bytes();
}

MeasuredMachine from_bytes(std::string bytes) {
  Unpacker reader(std::move(bytes), "what the first process has measured");
  MeasuredMachine measured;
  measured.times = reader.take<std::string>();
  measured.memory_per_rank = reader.take<std::int64_t>();
  measured.threads_per_rank = reader.take<std::int64_t>();
  reader.finish();
  return measured;
}

// Adds the time of a message between the first and the last rank, which are in different processes
// if there are several.
MeasuredMachine with_messages(Transport& transport, MeasuredMachine machine) {
  const int last = transport.size() - 1;
  if (machine.times.empty() || last == kMeasuringRank) return machine;
  LayerTimes times = parse_layer_times(machine.times, "the measurement");
  if (transport.rank() == kMeasuringRank || transport.rank() == last) {
    const int other = transport.rank() == last ? kMeasuringRank : last;
    const MessageTimes messages = message_times(transport, other, largest_message(times));
    times.latency = messages.latency;
    times.bandwidth = messages.bandwidth;
    machine.times = layer_times_json(times);
  }
  machine.times =
      transport.world()
          .broadcast(transport.rank() == kMeasuringRank ? machine.times : "", kMeasuringRank)
          .wait();
  return machine;
}

MeasuredMachine own_machine(const RunConfig& config, const ProcessJob& processes) {
  if (needs_measurement(config)) return measure_machine(config);
  const int ranks_here = processes.ranks_on_machine();
  MeasuredMachine machine;
  machine.memory_per_rank = planned_device(config.training.device, ranks_here)
                                .bytes.value_or(machine_memory_bytes() / ranks_here);
  machine.threads_per_rank =
      resolve_threads_per_rank(static_cast<int>(config.training.threads_per_rank), ranks_here);
  return machine;
}

}  // namespace

bool LocalRanks::has(int rank) const {
  return std::find(here.begin(), here.end(), rank) != here.end();
}

int LocalRanks::threads_per_rank(std::int64_t configured) const {
  return resolve_threads_per_rank(static_cast<int>(configured), on_machine);
}

std::int64_t LocalRanks::memory_bytes() const {
  return device.is_cpu() ? machine_memory_bytes() : std::numeric_limits<std::int64_t>::max();
}

LocalRanks ranks_of(ProcessJob& job, int num_ranks) {
  LocalRanks ranks;
  ranks.num_ranks = num_ranks;
  ranks.here = job.ranks_here();
  ranks.on_machine = job.ranks_on_machine();
  ranks.device = job.devices().devices.front();
  ranks.why_device = job.devices().why;
  ranks.transport = job.transport();
  ranks.connect = [&job] { return job.connect(); };
  ranks.cause = [&job](const Error& own) { return job.agreed(own); };
  ranks.tells = [&job] { return job.tells(); };
  ranks.has_others = job.environment().layout.num_processes > 1;
  if (ranks.has_others) {
    ranks.name = job.name();
    ranks.report_hung = [&job](int rank, const std::string& what, const std::string& remedy) {
      job.report_hung(rank, what, remedy);
    };
  }
  ranks.steps_begin = [&job] { job.steps_begin(); };
  return ranks;
}

ProcessJobOptions job_options(const RunConfig& config, int num_ranks) {
  const LaunchEnvironment environment = read_launch_environment();
  const bool alone = environment.layout.num_processes == 1;
  const TransportKind transport = config.parallelism.transport;
  if (!alone && transport == TransportKind::kThreads) {
    throw Error(
        ErrorKind::kUsage,
        {.what = formatted("parallelism.transport = \"threads\" is for one process, but {} {}",
                           has_started(environment.launcher), environment.layout.num_processes),
         .where = config.origins.at("parallelism.transport"),
         .remedy = "set parallelism.transport = \"gloo\", or start one process"});
  }
  if (alone && transport == TransportKind::kNccl) {
    throw Error(ErrorKind::kUsage,
                {.what = "NCCL moves tensors between processes, but this run has one process, "
                         "whose ranks are threads",
                 .where = config.origins.at("parallelism.transport"),
                 .remedy = formatted("start a process for each rank: sluice launch -n {} -- .., or "
                                     "set parallelism.transport = \"auto\"",
                                     num_ranks)});
  }
  ProcessJobOptions options;
  options.num_ranks = num_ranks;
  options.transport = transport;
  options.device = config.training.device;
  options.init_timeout = milliseconds(config.comm.init_timeout_seconds);
  options.heartbeat = milliseconds(config.comm.heartbeat_seconds);
  // A hanging rank ends the run before this deadline (hang_watch.h), because the hang report is
  // more precise than a timeout.
  options.deadline = milliseconds(config.comm.train_timeout_seconds) + options.heartbeat;
  if (alone && transport != TransportKind::kGloo)
    options.init_timeout = options.deadline = kLongestWait;
  return options;
}

void run_with_shared_errors(ProcessJob& processes, const std::function<void()>& call) {
  std::optional<Error> own;
  try {
    return call();
  } catch (const ReportedElsewhere& told) {
    write_error_file(processes, told);
    throw;
  } catch (...) {
    if (processes.environment().layout.num_processes == 1) throw;
    own = caught_error();
  }
  const Error error = processes.agreed(*own);
  write_error_file(processes, error);
  if (processes.tells()) throw Error(error);
  throw ReportedElsewhere(error);
}

MeasuredMachine measure_and_broadcast(const RunConfig& config, ProcessJob& processes) {
  const ProcessLayout& layout = processes.environment().layout;
  if (layout.num_processes == 1) return own_machine(config, processes);
  const std::vector<int> here = processes.ranks_here();
  std::string own;
  if (here.front() == kMeasuringRank) own = to_bytes(own_machine(config, processes));
  const auto endpoints = processes.connect();
  MeasuredMachine all;
  run_ranks(endpoints, 1, nullptr, [&](Transport& transport) {
    const std::string told =
        transport.world()
            .broadcast(transport.rank() == kMeasuringRank ? own : "", kMeasuringRank)
            .wait();
    MeasuredMachine machine = with_messages(transport, from_bytes(told));
    if (transport.rank() == here.front()) all = std::move(machine);
  });
  return all;
}

}  // namespace sluice
