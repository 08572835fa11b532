#include "job/job_processes.h"

#include <ctime>
#include <fstream>

#include "base/json.h"
#include "run/out_of_memory.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Threads cannot vanish, and a rank that fails wakes the others; what a rank waits for is at worst
// a slow disk or a large stage.
constexpr std::chrono::hours kLongestWait{1};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000.0 * seconds));
}

// As torchrun reads it (torch.distributed.elastic.multiprocessing.errors).
void write_error_file(const ProcessJob& processes, const Error& failure) {
  const std::string& path = processes.environment().error_file;
  if (path.empty()) return;
  const Json error = {
      {"message",
       {{"extraInfo", {{"py_callstack", ""}, {"timestamp", std::to_string(std::time(nullptr))}}},
        {"message", failure.what()}}}};
  std::ofstream(path) << error.dump();
}

}  // namespace

ProcessJobOptions job_options(const RunConfig& config, int num_ranks) {
  const LaunchEnvironment environment = read_launch_environment();
  const bool alone = environment.layout.num_processes == 1;
  const TransportKind transport = config.parallelism.transport;
  if (!alone && transport == TransportKind::kThreads) {
    throw Error(
        ErrorKind::kUsage,
        {.what = "threads are ranks of one process, and " + has_started(environment.launcher) +
                 " " + std::to_string(environment.layout.num_processes),
         .where = config.origins.at("parallelism.transport"),
         .remedy = "parallelism.transport = \"gloo\", or start one process"});
  }
  ProcessJobOptions options;
  options.num_ranks = num_ranks;
  options.wires = transport == TransportKind::kGloo;
  options.init_timeout = milliseconds(config.comm.init_timeout_seconds);
  options.heartbeat = milliseconds(config.comm.heartbeat_seconds);
  // A rank that hangs has been named and has ended the run by then (hang_watch.h): who waits for it
  // knows less.
  options.deadline = milliseconds(config.comm.train_timeout_seconds) + options.heartbeat;
  if (alone && !options.wires) options.init_timeout = options.deadline = kLongestWait;
  return options;
}

void told_to_all(ProcessJob& processes, const std::function<void()>& call) {
  std::optional<Error> own;
  try {
    return call();
  } catch (const ToldElsewhere& told) {
    write_error_file(processes, told);
    throw;
  } catch (...) {
    if (processes.environment().layout.num_processes == 1) throw;
    own = caught_error();
  }
  const Error error = processes.agreed(*own);
  write_error_file(processes, error);
  if (processes.tells()) throw Error(error);
  throw ToldElsewhere(error);
}

}  // namespace sluice
