#include "job/measured_once.h"

#include "base/wire.h"
#include "config/machine_memory.h"
#include "run/rank_threads.h"
#include "sluice/job.h"

namespace sluice {
namespace {

constexpr int kMeasuringRank = 0;

std::string to_bytes(const MeasuredMachine& measured) {
  return WireWriter()
      .add(measured.times)
      .add(measured.memory_per_rank)
      .add(measured.threads_per_rank)
      .bytes();
}

MeasuredMachine from_bytes(std::string bytes) {
  WireReader reader(std::move(bytes), "what the first process has measured");
  MeasuredMachine measured;
  measured.times = reader.take<std::string>();
  measured.memory_per_rank = reader.take<std::int64_t>();
  measured.threads_per_rank = reader.take<std::int64_t>();
  reader.finish();
  return measured;
}

// Of this process: times only where the plan needs them.
MeasuredMachine own_machine(const RunConfig& config, const ProcessJob& processes) {
  if (needs_measurement(config)) return measure_machine(config);
  const int ranks_here = processes.ranks_on_machine();
  MeasuredMachine machine;
  machine.memory_per_rank = machine_memory_bytes() / ranks_here;
  machine.threads_per_rank =
      resolve_threads_per_rank(static_cast<int>(config.training.threads_per_rank), ranks_here);
  return machine;
}

}  // namespace

MeasuredMachine measured_once(const RunConfig& config, ProcessJob& processes) {
  const ProcessLayout& layout = processes.environment().layout;
  if (layout.num_processes == 1) return own_machine(config, processes);
  const std::vector<int> here = processes.ranks_here();
  std::string own;
  if (here.front() == kMeasuringRank) own = to_bytes(own_machine(config, processes));
  const auto endpoints = processes.connect();
  std::string all;
  run_ranks(endpoints, 1, nullptr, [&](Transport& transport) {
    std::string told = transport.world()
                           .broadcast(transport.rank() == kMeasuringRank ? own : "", kMeasuringRank)
                           .wait();
    if (transport.rank() == here.front()) all = std::move(told);
  });
  return from_bytes(std::move(all));
}

}  // namespace sluice
