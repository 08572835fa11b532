#include "config/machine_memory.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Largest relative error of the memory prediction (docs/memory.md).
constexpr double kUncertainty = 0.04;

// Returns infinity if the file has no number, as in "max".
double limit_in(const char* path) {
  double bytes = 0;
  return std::ifstream(path) >> bytes ? bytes : std::numeric_limits<double>::infinity();
}

std::int64_t to_bytes(double bytes) {
  constexpr double kMost = 9e18;
  return static_cast<std::int64_t>(std::min(bytes, kMost));
}

struct Needs {
  double held = 0, peak = 0;
  bool snapshots = false;
};

Needs needs_of(const Plan& plan) {
  Needs needs;
  for (const RankPrediction& rank : plan.ranks) {
    needs.held += static_cast<double>(rank.memory.held_bytes());
    needs.peak += static_cast<double>(rank.memory.total_bytes());
    needs.snapshots |= rank.memory.snapshot_bytes > 0;
  }
  const double replicas = plan.options.data_parallel.degree * plan.options.tensor_parallel.degree;
  needs.held *= replicas;
  needs.peak *= replicas;
  return needs;
}

std::optional<Error> rank_shortage(const Plan& plan) {
  if (!plan.options.memory_per_rank) return std::nullopt;
  const auto largest = std::max_element(plan.ranks.begin(), plan.ranks.end(),
                                        [](const RankPrediction& a, const RankPrediction& b) {
                                          return a.memory.total_bytes() < b.memory.total_bytes();
                                        });
  if (largest == plan.ranks.end() || largest->memory.total_bytes() <= *plan.options.memory_per_rank)
    return std::nullopt;
  return Error(
      ErrorKind::kMemory,
      {.what = formatted("training needs {} at its peak on rank {}, above {}",
                         needed_bytes(largest->memory.total_bytes()), largest - plan.ranks.begin(),
                         human_bytes(*plan.options.memory_per_rank)),
       .where = "parallelism.device_memory",
       .remedy = "use more ranks, a smaller training.microbatch_size or "
                 "training.seq_len, training.activation_checkpoint, or "
                 "pipeline_parallel_schedule = \"auto\""});
}

}  // namespace

std::int64_t machine_memory_bytes() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return std::numeric_limits<std::int64_t>::max();
  const double unit = info.mem_unit;
  const double container = std::min(limit_in("/sys/fs/cgroup/memory.max"),
                                    limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  double bytes = std::min(unit * static_cast<double>(info.totalram), container) +
                 unit * static_cast<double>(info.totalswap);
  struct rlimit space {};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    bytes = std::min(bytes, static_cast<double>(space.rlim_cur));
  return to_bytes(bytes);
}

std::optional<Error> memory_shortage(const Plan& plan, std::int64_t machine_bytes,
                                     std::optional<int> ranks_here) {
  if (std::optional<Error> shortage = rank_shortage(plan)) return shortage;
  Needs needs = needs_of(plan);
  const int num_ranks = plan.program.mesh.num_ranks();
  const double share = ranks_here.value_or(num_ranks) / static_cast<double>(num_ranks);
  needs.peak *= share;
  needs.held *= share;
  if ((1 - kUncertainty) * needs.peak <= static_cast<double>(machine_bytes)) return std::nullopt;
  return Error(
      ErrorKind::kMemory,
      {.what = "training needs " + needed_bytes(to_bytes(needs.peak)) + " at its peak, " +
               human_bytes(to_bytes(needs.held)) + " of it for weights, gradients and optimizer" +
               (needs.snapshots ? " with a copy for checkpoints" : "") +
               " and the rest for microbatches",
       .where = formatted("{}{} ranks together; this machine has {}",
                          share < 1 ? std::to_string(*ranks_here) + " of " : "all ", num_ranks,
                          human_bytes(machine_bytes)),
       .remedy = "the ranks share this machine: use a smaller model, optimizer.name = \"SGD\", " +
                 std::string(needs.snapshots ? "checkpoint.async = false, " : "") +
                 "or a smaller training.microbatch_size or training.seq_len"});
}

void require_memory(const Plan& plan, std::int64_t machine_bytes, std::optional<int> ranks_here) {
  if (const std::optional<Error> shortage = memory_shortage(plan, machine_bytes, ranks_here)) {
    throw Error(*shortage);
  }
}

}  // namespace sluice
