#include "job/measured_once.h"

#include "base/wire.h"
#include "sluice/job.h"
#include "sluice/parts/rank_threads.h"

namespace sluice {
namespace {

constexpr int kMeasuringRank = 0;

std::string to_bytes(const MeasuredMachine& measured) {
  return WireWriter().add(measured.times).add(measured.memory_per_rank).bytes();
}

MeasuredMachine from_bytes(std::string bytes) {
  WireReader reader(std::move(bytes), "the measured costs");
  MeasuredMachine measured;
  measured.times = reader.take<std::string>();
  measured.memory_per_rank = reader.take<std::int64_t>();
  reader.finish();
  return measured;
}

}  // namespace

MeasuredMachine measured_once(const RunConfig& config, ProcessJob& processes) {
  const ProcessLayout& layout = processes.environment().layout;
  if (layout.num_processes == 1) return measure_machine(config);
  const std::vector<int> here = processes.ranks_here();
  std::string own;
  if (here.front() == kMeasuringRank) own = to_bytes(measure_machine(config));
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
