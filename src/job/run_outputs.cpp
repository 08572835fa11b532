#include "job/run_outputs.h"

#include <algorithm>
#include <set>
#include <string>

#include "checkpoint/kept_tensors.h"
#include "job/run_inputs.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/metrics.h"

namespace sluice {
namespace {

// Of the files that the ranks write: of weights, of optimizer state.
std::uint64_t largest_shard(const Plan& plan) {
  std::int64_t bytes = 1;
  for (const RankPrediction& rank : plan.ranks)
    bytes = std::max({bytes, rank.memory.parameter_bytes, rank.memory.optimizer_bytes});
  return std::min(static_cast<std::uint64_t>(bytes), kMaxShardBytes);
}

// A checkpoint. Its manifest has a line for every tensor, as long as its entry in header and index.
std::uint64_t checkpoint_bytes(const RunConfig& config, const Plan& plan) {
  std::uint64_t bytes = 0;
  for (const RankPrediction& rank : plan.ranks)
    bytes += static_cast<std::uint64_t>(rank.memory.optimizer_bytes);
  constexpr std::uint64_t kEntryBytes = 512;
  std::set<std::string> names;
  for (const LayerInfo& layer : plan.model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      bytes += 4 * (kEntryBytes + parameter.name.size());  // weight, two moments, step
      names.insert(parameter.name);
    }
  }
  const auto kept = tensors_to_keep(plan.model.config_text, config.model.path, names);
  if (kept) bytes += kept->bytes();
  return bytes + hf_directory_bytes(plan.model, tokenizer_directory(config));
}

}  // namespace

void require_outputs(const RunConfig& config, const Plan& plan) {
  check_writable(config.checkpoint.folder, ErrorKind::kCheckpoint, checkpoint_bytes(config, plan),
                 largest_shard(plan));
  MetricsFile::check(config.metrics.folder);
}

}  // namespace sluice
