#include "command/small_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "command/inputs.h"
#include "model/model_maker.h"

namespace sluice {
namespace {

constexpr int kMicrobatches = 2;  // per round: one with a whole backward, one with a split backward

Schedule measuring_schedule(int num_stages) {
  Schedule schedule;
  schedule.name = "measurement";
  schedule.num_microbatches = kMicrobatches;
  schedule.stage_map = StageMap(1, std::vector<int>(static_cast<std::size_t>(num_stages), 0));
  std::vector<Action>& row = schedule.rows.emplace_back();
  for (int m = 0; m < kMicrobatches; ++m) {
    const bool splits = m + 1 == kMicrobatches;
    for (int s = 0; s < num_stages; ++s) row.push_back(Action::forward(s, m));
    for (int s = num_stages - 1; s >= 0; --s)
      row.push_back(splits ? Action::backward_input(s, m) : Action::backward(s, m));
    for (int s = num_stages - 1; splits && s >= 0; --s)
      row.push_back(Action::backward_weight(s, m));
  }
  return schedule;
}

ActivationCheckpoint recomputed_of(const ActivationCheckpoint& which, const ModelSpec& spec) {
  if (which.kind != ActivationCheckpoint::kLayers) return which;
  std::vector<std::string> names;
  for (const LayerInfo& layer : spec.layers) {
    if (std::find(which.names.begin(), which.names.end(), layer.name) != which.names.end())
      names.push_back(layer.name);
  }
  return names.empty() ? ActivationCheckpoint() : ActivationCheckpoint(which.kind, names);
}

// Avoids zeros and denormals, which compute at other speeds.
void fill(at::Tensor& value) {
  if (!value.is_floating_point()) return;
  value.dim() < 2 ? value.fill_(1) : value.uniform_(-0.03, 0.03);
}

}  // namespace

RunConfig single_rank_config(RunConfig config) {
  ParallelismOptions& parallelism = config.parallelism;
  parallelism.pipeline.num_ranks = 1;
  parallelism.pipeline.schedule = ScheduleKind::k1F1B;
  parallelism.pipeline.partition = {};
  parallelism.pipeline.data_parallel = {};
  parallelism.pipeline.expert_parallel = {};
  parallelism.pipeline.tensor_parallel = {};
  parallelism.schedule_csv.clear();
  parallelism.partition = Balance::kEven;
  parallelism.costs.clear();
  parallelism.device_memory.clear();
  config.training.local_batch_size = config.training.microbatch_size;
  config.training.global_batch_size = 0;
  config.checkpoint.interval = {};
  return config;
}

SmallModel small_model(const RunConfig& config, const ModelSpec& whole,
                       const std::vector<detail::LayerGroup>& groups) {
  SmallModel small;
  Model all = run_model(config, whole, adapter_of_config(config, whole));
  small.spec = whole;
  small.spec.layers.clear();
  small.model = all;
  small.model.layers.clear();
  PipelineOptions options;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].measured_as != static_cast<int>(g)) continue;
    small.groups.push_back(static_cast<int>(g));
    if (!small.spec.layers.empty())
      options.partition.cuts.push_back(small.spec.layers.back().module_names().back());
    for (const int layer : groups[g].layers) {
      small.spec.layers.push_back(whole.layers[static_cast<std::size_t>(layer)]);
      small.model.layers.push_back(all.layers.at(static_cast<std::size_t>(layer)));
    }
  }
  small.model.initialization.tensor = [](const std::string& /*name*/, at::Tensor& value) {
    fill(value);
  };
  options.schedule = measuring_schedule(static_cast<int>(small.groups.size()));
  options.partition.convention = Convention::kNeuronx;  // allows a stage without decoder layers
  options.microbatch_size = config.training.microbatch_size;
  options.seq_len = config.training.seq_len;
  options.optimizer = config.optimizer.kind;
  options.activation_checkpoint = recomputed_of(config.training.activation_checkpoint, small.spec);
  options.step_end = StepEnd::kUpdate;
  small.plan = plan_pipeline(small.spec, options);
  return small;
}

StepBatch random_batch(const RunConfig& config, const SmallModel& small, std::int64_t step) {
  return maker_of(config.kinds, small.spec)
      .made_up_batch(small.spec, small.model,
                     {config.training.microbatch_size, config.training.seq_len}, kMicrobatches,
                     step);
}

}  // namespace sluice
