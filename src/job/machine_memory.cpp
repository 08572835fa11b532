#include "job/machine_memory.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// A file of one number; anything else ("max", no such file) is no limit.
double limit_in(const char* path) {
  double bytes = 0;
  return std::ifstream(path) >> bytes ? bytes : std::numeric_limits<double>::infinity();
}

// Sizes of the configuration may be anything, so sums are taken as doubles.
double logits_bytes(const RunConfig& config, const Plan& plan) {
  const MicrobatchShape shape{config.training.microbatch_size, config.training.seq_len};
  double bytes = 0;
  for (const ValueSpec& value : plan.model.layers.back().writes) bytes += value.bytes_at(shape);
  return bytes;
}

std::int64_t to_bytes(double bytes) {
  constexpr double kMost = 9e18;
  return static_cast<std::int64_t>(std::min(bytes, kMost));
}

double held_bytes(const Plan& plan) {
  double bytes = 0;
  for (const RankMemory& rank : plan.memory) bytes += static_cast<double>(rank.held_bytes());
  return bytes;
}

}  // namespace

std::int64_t machine_memory_bytes() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return std::numeric_limits<std::int64_t>::max();
  const double unit = info.mem_unit;
  const double container =
      std::min(limit_in("/sys/fs/cgroup/memory.max"),                     // version 2
               limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"));  // version 1
  double bytes = std::min(unit * static_cast<double>(info.totalram), container) +
                 unit * static_cast<double>(info.totalswap);
  struct rlimit space {};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    bytes = std::min(bytes, static_cast<double>(space.rlim_cur));
  return to_bytes(bytes);
}

std::int64_t least_memory_bytes(const RunConfig& config, const Plan& plan) {
  return to_bytes(held_bytes(plan) + logits_bytes(config, plan));
}

void require_memory(const RunConfig& config, const Plan& plan, std::int64_t machine_bytes) {
  const std::int64_t needed = least_memory_bytes(config, plan);
  if (needed <= machine_bytes) return;
  throw Error(
      ErrorKind::kMemory,
      "training needs at least " + human_bytes(needed) + ", " +
          human_bytes(to_bytes(held_bytes(plan))) +
          " of it for weights, gradients and optimizer and " +
          human_bytes(to_bytes(logits_bytes(config, plan))) + " for the logits of a microbatch",
      "all " + std::to_string(plan.memory.size()) + " ranks together; this machine has " +
          human_bytes(machine_bytes),
      "the ranks are threads of one process: use a smaller model, optimizer.name = \"SGD\", "
      "or a smaller training.microbatch_size or training.seq_len");
}

}  // namespace sluice
