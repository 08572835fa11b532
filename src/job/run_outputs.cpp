#include "job/run_outputs.h"

#include <algorithm>
#include <set>
#include <string>

#include "checkpoint/kept_tensors.h"
#include "io/check_writable.h"
#include "job/run_inputs.h"
#include "plan/lora/adapter_files.h"
#include "sluice/lora.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/metrics.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

// The rest of a model with an adapter is where it was.
ModelSpec saved_part(const ModelSpec& model) {
  return has_adapter(model) ? adapter_alone(model) : model;
}

// Of the files that the ranks write: of weights, of optimizer state. An adapter is one file.
std::uint64_t largest_shard(const Plan& plan) {
  std::int64_t bytes = 1;
  if (has_adapter(plan.model)) {
    for (const LayerInfo& layer : adapter_alone(plan.model).layers) {
      for (const ParameterSpec& parameter : layer.parameters)
        bytes += dtype_bytes(parameter.dtype) * parameter.numel();
    }
    return static_cast<std::uint64_t>(bytes);
  }
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
  const ModelSpec saved = saved_part(plan.model);
  std::set<std::string> names;
  for (const LayerInfo& layer : saved.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      bytes += 4 * (kEntryBytes + parameter.name.size());  // weight, two moments, step
      names.insert(parameter.name);
    }
  }
  bytes += hf_directory_bytes(saved, source_directory(config));
  if (has_adapter(plan.model)) return bytes;
  const auto kept = tensors_to_keep(plan.model.config_text, config.model.path, names);
  return kept ? bytes + kept->bytes() : bytes;
}

}  // namespace

void require_outputs(const RunConfig& config, const Plan& plan) {
  check_writable(config.checkpoint.folder, ErrorKind::kCheckpoint, checkpoint_bytes(config, plan),
                 largest_shard(plan));
  MetricsFile::check(config.metrics.folder);
}

}  // namespace sluice
