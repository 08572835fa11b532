#include "job/run_outputs.h"

#include <algorithm>

#include "sluice/parts/hf_directory.h"
#include "sluice/parts/metrics.h"

namespace sluice {
namespace {

// Of the files of weights that the ranks write.
std::uint64_t largest_shard(const Plan& plan) {
  std::int64_t bytes = 1;
  for (const RankPrediction& rank : plan.ranks)
    bytes = std::max(bytes, rank.memory.parameter_bytes);
  return std::min(static_cast<std::uint64_t>(bytes), kMaxShardBytes);
}

}  // namespace

void require_outputs(const RunConfig& config, const Plan& plan) {
  check_writable(config.checkpoint.folder, ErrorKind::kCheckpoint,
                 hf_directory_bytes(plan.model, config.model.path), largest_shard(plan));
  MetricsFile::check(config.metrics.folder);
}

}  // namespace sluice
