#include "plan/predict/memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/saturate.h"
#include "plan/expert_parallel.h"
#include "plan/operator_costs.h"
#include "plan/optimizer_state.h"
#include "plan/predict/activation_memory.h"
#include "plan/predict/layer_times.h"
#include "plan/predict/replica_memory.h"
#include "plan/slices.h"
#include "sluice/simulate.h"

namespace sluice {

std::int64_t RankMemory::total_bytes() const {
  const std::int64_t of_replicas = saturating_add(reduction_bytes, gathered_bytes);
  return saturating_add(saturating_add(held_bytes(), of_replicas),
                        saturating_add(activation_bytes, running_bytes));
}

namespace detail {
namespace {

// Gradient sums and optimizer state are float32 for every parameter dtype.
constexpr std::int64_t kFloat32 = 4;

// Each use of a tied parameter has a separate gradient, and so has each tensor-parallel slice of a
// rank where slices share a weight.
std::int64_t gradient_bytes_of(const Plan& plan, const StageContent& stage) {
  std::int64_t bytes = 0;
  if (!has_weight_gradients(stage.backward)) return bytes;
  const TensorParallel& shares = plan.options.tensor_parallel;
  const int slices_here = shares.num_slices() / shares.degree;
  for (const int layer : stage.layers) {
    const LayerInfo& info = plan.model.layers[layer];
    for (const ParameterSpec& parameter : info.parameters) {
      if (!parameter.trainable) continue;
      const bool by_slice =
          slices_here > 1 && detail::has_gradient_of_each_slice(info, parameter.name);
      bytes = saturating_add(bytes,
                             saturating_multiply(kFloat32 * (by_slice ? slices_here : 1),
                                                 detail::most_held(info, parameter, plan.options)));
    }
  }
  return bytes;
}

// Bytes of the stage's parameters that are experts, or of the others. Fewer replicas hold an
// expert.
detail::ReplicaBytes exchanged_bytes(const Plan& plan, const StageContent& stage,
                                     bool are_experts) {
  detail::ExchangedParameters exchanged;
  exchanged.bytes_of_number = 1;
  for (const int layer : stage.layers) {
    const LayerInfo& info = plan.model.layers[layer];
    for (const ParameterSpec& parameter : info.parameters) {
      if (detail::is_shared_expert(info, parameter.name, plan.options) != are_experts) continue;
      (parameter.trainable ? exchanged.trained : exchanged.frozen)
          .push_back(detail::most_held(info, parameter, plan.options));
      exchanged.bytes_of_number =
          std::max<std::int64_t>(exchanged.bytes_of_number, dtype_bytes(parameter.dtype));
    }
  }
  DataParallel holders = plan.options.data_parallel;
  if (are_experts) {
    holders.degree /= plan.options.expert_parallel.degree;
    holders.shards = 0;
  }
  return detail::replica_bytes(exchanged, holders);
}

// Parameters of a rank, counting tied ones once.
struct RankParameters {
  std::set<std::string> held;
  std::int64_t num_trained = 0;
  std::int64_t trained_bytes = 0;
  std::int64_t shown_bytes = 0;  // bytes of `.grad` tensors, unless these are the gradient sums
  std::int64_t of_adapters = 0;
};

void add_parameters(const Plan& plan, const StageContent& stage, RankParameters& of,
                    RankMemory& rank) {
  for (const int layer : stage.layers) {
    const LayerInfo& info = plan.model.layers[layer];
    for (const ParameterSpec& parameter : info.parameters) {
      const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
      if (!of.held.insert(name).second) continue;
      const std::int64_t width = dtype_bytes(parameter.dtype);
      const std::int64_t held = detail::most_held(info, parameter, plan.options);
      rank.num_parameters += held;
      rank.parameter_bytes += width * held;
      if (parameter.trainable) {
        of.num_trained += held;
        of.trained_bytes += width * held;
        of.shown_bytes += width == kFloat32 ? 0 : width * held;
      }
      if (parameter.of_adapter) of.of_adapters += width * held;
    }
  }
}

bool has_adapter(const ModelSpec& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const LayerInfo& layer) {
    return std::any_of(layer.parameters.begin(), layer.parameters.end(),
                       [](const ParameterSpec& parameter) { return parameter.of_adapter; });
  });
}

std::int64_t mask_bytes_of(const Plan& plan, const std::vector<const StageContent*>& stages) {
  std::vector<int> layers;
  for (const StageContent* stage : stages)
    layers.insert(layers.end(), stage->layers.begin(), stage->layers.end());
  const double bytes = mask_bytes(plan.model, layers, plan.microbatch.length);
  return bytes < static_cast<double>(kTooMuch) ? static_cast<std::int64_t>(bytes) : kTooMuch;
}

// A rank that runs only forwards may run far ahead of its receivers. Returns each rank's peak bytes
// of sent but not yet received activations.
std::vector<std::int64_t> bytes_under_way(const Plan& plan) {
  const std::vector<StageContent>& stages = plan.partition.stages;
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(plan.partition.num_ranks()));
  std::vector<bool> runs_ahead(bytes.size(), true);
  for (const StageContent& stage : stages)
    if (stage.backward != StageBackward::kNone) runs_ahead[stage.rank] = false;
  const auto none = std::count(runs_ahead.begin(), runs_ahead.end(), true);
  if (none == 0 || none == static_cast<std::ptrdiff_t>(runs_ahead.size())) return bytes;
  const Simulation run = simulate(
      plan.program, stage_costs(counted_times(plan.model, plan.microbatch, plan.options.optimizer),
                                plan.partition));
  std::map<std::pair<int, int>, double> received;
  for (const RankTimeline& row : run.ranks) {
    for (const TimedAction& timed : row.actions)
      if (timed.action.kind == ActionKind::kForward)
        received[{timed.action.stage, timed.action.microbatch}] = timed.start;
  }
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    const int rank = stages[s].rank;
    if (!runs_ahead[rank] || stages[s + 1].rank == rank) continue;
    std::int64_t most = 0, message = 0;
    for (const ValueSpec& value : plan.model.layers[stages[s].layers.back()].writes)
      message += static_cast<std::int64_t>(value.bytes_at(plan.microbatch));
    const std::vector<TimedAction>& row = run.ranks[rank].actions;
    for (const TimedAction& now : row) {
      most = std::max<std::int64_t>(
          most, std::count_if(row.begin(), row.end(), [&](const TimedAction& sent) {
            const auto found = received.find({stages[s + 1].stage, sent.action.microbatch});
            return sent.action.stage == stages[s].stage && sent.end <= now.end &&
                   found != received.end() && found->second > now.start;
          }));
    }
    bytes[rank] = saturating_add(bytes[rank], saturating_multiply(most, message));
  }
  return bytes;
}

// At the end, the gradients of all uses of a tied parameter are summed into another float32 tensor.
// Returns the largest such tensor's bytes.
std::int64_t tied_sum(const Plan& plan, const std::vector<const StageContent*>& stages) {
  std::map<std::string, std::int64_t> numbers;
  for (const LayerInfo& layer : plan.model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (!parameter.tied_to.empty())
        numbers[parameter.tied_to] = detail::most_held(parameter, plan.options.tensor_parallel);
    }
  }
  std::int64_t sum = 0;
  if (numbers.empty()) return sum;
  for (const StageContent* stage : stages) {
    for (const int layer : stage->layers) {
      for (const ParameterSpec& parameter : plan.model.layers[layer].parameters) {
        const auto found =
            numbers.find(parameter.tied_to.empty() ? parameter.name : parameter.tied_to);
        if (parameter.trainable && found != numbers.end())
          sum = std::max(sum, saturating_multiply(kFloat32, found->second));
      }
    }
  }
  return sum;
}

}  // namespace

double mask_bytes(const ModelSpec& model, const std::vector<int>& layers, std::int64_t length) {
  std::map<std::int64_t, double> bytes_of_score;  // [attention window]; 0: none
  for (const int layer : layers) {
    const std::optional<AttentionMask>& mask = model.layers.at(layer).mask;
    const bool hides = mask && mask->window > 0 && mask->window < length;
    if (hides || (mask && mask->always))
      bytes_of_score[hides ? mask->window : 0] = mask->bytes_of_score;
  }
  double bytes = 0;
  for (const auto& [window, of_score] : bytes_of_score) bytes += of_score;
  return bytes * static_cast<double>(length) * static_cast<double>(length);
}

RankMemory rank_memory(const Plan& plan, const Partition& partition, int rank,
                       const std::vector<Action>& row) {
  const DataParallel& replicas = plan.options.data_parallel;
  RankMemory of;
  RankParameters parameters;
  std::vector<const StageContent*> stages;
  std::vector<ActivationBytes> activations(partition.stages.size());
  std::vector<ReplicaBytes> exchanged(replicas.degree > 1 ? partition.stages.size() : 0);
  ReplicaBytes share;  // sums over the rank's stages
  for (const StageContent& stage : partition.stages) {
    if (stage.rank != rank) continue;
    stages.push_back(&stage);
    const auto index = static_cast<std::size_t>(stage.stage);
    activations[index] = stage_activations(plan.model, stage, plan.microbatch);
    of.gradient_bytes =
        saturating_add(of.gradient_bytes,
                       saturating_multiply(open_sums(replicas), gradient_bytes_of(plan, stage)));
    add_parameters(plan, stage, parameters, of);
    if (replicas.degree == 1) continue;
    exchanged[index] = exchanged_bytes(plan, stage, /*are_experts=*/false);
    if (plan.options.expert_parallel.degree > 1)
      exchanged[index].add(exchanged_bytes(plan, stage, /*are_experts=*/true));
    share.trained_numbers = saturating_add(share.trained_numbers, exchanged[index].trained_numbers);
    share.trained_share = saturating_add(share.trained_share, exchanged[index].trained_share);
    share.frozen_share = saturating_add(share.frozen_share, exchanged[index].frozen_share);
  }
  const bool is_ours = plan.options.step_end == StepEnd::kUpdate;
  const bool shards_state = replicas.degree > 1 && (replicas.zero1 || replicas.zero3);
  // Tied parameters have one optimizer state per rank, so the replica's share may exceed the total.
  const std::int64_t num_trained = shards_state
                                       ? std::min(parameters.num_trained, share.trained_numbers)
                                       : parameters.num_trained;
  // The user's optimizer keeps its state in the parameter's dtype.
  std::int64_t shown = parameters.shown_bytes, trained = parameters.trained_bytes;
  if (shards_state) {
    shown = std::min(shown, share.trained_share);
    trained = std::min(trained, share.trained_share);
  }
  if (!is_ours) of.gradient_bytes = saturating_add(of.gradient_bytes, shown);
  of.optimizer_bytes =
      moments_of(plan.options.optimizer) * (is_ours ? kFloat32 * num_trained : trained);
  if (replicas.degree > 1 && replicas.zero3) {
    of.parameter_bytes =
        std::min(of.parameter_bytes, saturating_add(share.trained_share, share.frozen_share));
  }
  // A snapshot stores trained and frozen parameters, tied ones once, but with adapters only the
  // adapters.
  if (plan.options.keeps_snapshot) {
    of.snapshot_bytes = (has_adapter(plan.model) ? parameters.of_adapters : of.parameter_bytes) +
                        of.optimizer_bytes;
  }
  const RowActivations activated = row_activations(row, activations, exchanged);
  of.activation_bytes =
      saturating_add(saturating_add(activated.kept, activated.pooled), mask_bytes_of(plan, stages));
  of.running_bytes = activated.peak - activated.kept;
  of.gathered_bytes = std::min(activated.gathered, activated.exchanged);
  of.reduction_bytes =
      std::max(activated.exchanged - of.gathered_bytes, tied_sum(plan, stages) - activated.peak);
  return of;
}

std::vector<RankMemory> predict_memory(const Plan& plan) {
  const std::vector<std::int64_t> under_way = bytes_under_way(plan);
  std::vector<RankMemory> memory;
  for (int rank = 0; rank < plan.partition.num_ranks(); ++rank) {
    memory.push_back(rank_memory(plan, plan.partition, rank,
                                 plan.program.ranks[static_cast<std::size_t>(rank)]));
    std::int64_t& running = memory.back().running_bytes;
    running = saturating_add(running, under_way[static_cast<std::size_t>(rank)]);
  }
  return memory;
}

}  // namespace detail
}  // namespace sluice
