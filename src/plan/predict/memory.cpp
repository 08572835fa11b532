#include "plan/predict/memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/saturate.h"
#include "plan/families/families.h"
#include "plan/lora/adapter_files.h"
#include "plan/predict/activation_memory.h"
#include "plan/predict/replica_memory.h"
#include "sluice/lora.h"

namespace sluice {

std::int64_t RankMemory::total_bytes() const {
  const std::int64_t of_replicas = saturating_add(reduction_bytes, gathered_bytes);
  return saturating_add(saturating_add(held_bytes(), of_replicas),
                        saturating_add(activation_bytes, running_bytes));
}

namespace detail {
namespace {

// Bytes of a number in sums of gradients and in the optimizer's state, whatever the parameters are.
constexpr std::int64_t kFloat32 = 4;

int moments_of(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::kAdamW:
      return 2;
    case OptimizerKind::kSgd:
      return 0;
  }
  return 0;
}

// The gradients of all its uses.
std::int64_t gradient_bytes_of(const ModelSpec& model, const StageContent& stage) {
  std::int64_t bytes = 0;
  if (!has_weight_gradients(stage.backward)) return bytes;
  for (const int layer : stage.layers) {
    for (const ParameterSpec& parameter : model.layers[layer].parameters) {
      if (parameter.trainable)
        bytes = saturating_add(bytes, saturating_multiply(kFloat32, parameter.numel()));
    }
  }
  return bytes;
}

// Every use of a parameter by itself.
detail::ExchangedParameters exchanged_parameters(const ModelSpec& model,
                                                 const StageContent& stage) {
  detail::ExchangedParameters exchanged;
  exchanged.bytes_of_number = 1;
  for (const int layer : stage.layers) {
    for (const ParameterSpec& parameter : model.layers[layer].parameters) {
      (parameter.trainable ? exchanged.trained : exchanged.frozen).push_back(parameter.numel());
      exchanged.bytes_of_number =
          std::max<std::int64_t>(exchanged.bytes_of_number, dtype_bytes(parameter.dtype));
    }
  }
  return exchanged;
}

// The parameters of a rank together, each storage once.
struct RankParameters {
  std::set<std::string> held;
  std::int64_t num_trained = 0;
  std::int64_t trained_bytes = 0;
  std::int64_t shown_bytes = 0;  // of `.grad` where it is not the sum itself
  std::int64_t of_adapters = 0;  // bytes
};

void add_parameters(const ModelSpec& model, const StageContent& stage, RankParameters& of,
                    RankMemory& rank) {
  for (const int layer : stage.layers) {
    for (const ParameterSpec& parameter : model.layers[layer].parameters) {
      const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
      if (!of.held.insert(name).second) continue;
      const std::int64_t width = dtype_bytes(parameter.dtype);
      rank.num_parameters += parameter.numel();
      rank.parameter_bytes += width * parameter.numel();
      if (parameter.trainable) {
        of.num_trained += parameter.numel();
        of.trained_bytes += width * parameter.numel();
        of.shown_bytes += width == kFloat32 ? 0 : width * parameter.numel();
      }
      if (is_adapter_parameter(parameter.name)) of.of_adapters += width * parameter.numel();
    }
  }
}

// Bytes of the masks of all stages of the rank.
std::int64_t mask_bytes_of(const Plan& plan, int rank) {
  std::vector<int> layers;
  for (const StageContent& stage : plan.partition.stages) {
    if (stage.rank == rank) layers.insert(layers.end(), stage.layers.begin(), stage.layers.end());
  }
  const double bytes = mask_bytes(plan.model, layers, plan.microbatch.length);
  return bytes < static_cast<double>(kTooMuch) ? static_cast<std::int64_t>(bytes) : kTooMuch;
}

// The float32 sum of a tied parameter, which is made beside the gradients of its uses when no
// microbatch is live any more: of each rank that has a use, the largest.
std::vector<std::int64_t> tied_sums(const Plan& plan) {
  std::map<std::string, std::set<int>> ranks;
  std::map<std::string, std::int64_t> numbers;
  for (const StageContent& stage : plan.partition.stages) {
    for (const int layer : stage.layers) {
      for (const ParameterSpec& parameter : plan.model.layers[layer].parameters) {
        const bool is_first = parameter.tied_to.empty();
        const std::string& name = is_first ? parameter.name : parameter.tied_to;
        if (parameter.trainable) ranks[name].insert(stage.rank);
        if (!is_first) numbers[name] = parameter.numel();
      }
    }
  }
  std::vector<std::int64_t> sums(static_cast<std::size_t>(plan.partition.num_ranks()));
  for (const auto& [name, count] : numbers) {
    for (const int rank : ranks[name]) {
      std::int64_t& sum = sums[static_cast<std::size_t>(rank)];
      sum = std::max(sum, saturating_multiply(kFloat32, count));
    }
  }
  return sums;
}

}  // namespace

std::vector<RankMemory> predict_memory(const Plan& plan) {
  const DataParallel& replicas = plan.data_parallel;
  const int sums = open_sums(replicas);
  const bool saves_adapter = has_adapter(plan.model);
  std::vector<RankMemory> memory(static_cast<std::size_t>(plan.partition.num_ranks()));
  std::vector<RankParameters> parameters(memory.size());
  std::vector<ActivationBytes> activations;
  std::vector<ReplicaBytes> exchanged;
  std::vector<ReplicaBytes> shares(memory.size());  // of the stages of a rank together
  for (const StageContent& stage : plan.partition.stages) {
    activations.push_back(stage_activations(plan.model, stage, plan.microbatch));
    RankMemory& rank = memory[stage.rank];
    rank.gradient_bytes = saturating_add(
        rank.gradient_bytes, saturating_multiply(sums, gradient_bytes_of(plan.model, stage)));
    add_parameters(plan.model, stage, parameters[stage.rank], rank);
    if (replicas.degree == 1) continue;
    exchanged.push_back(replica_bytes(exchanged_parameters(plan.model, stage), replicas));
    ReplicaBytes& share = shares[stage.rank];
    share.trained_numbers = saturating_add(share.trained_numbers, exchanged.back().trained_numbers);
    share.trained_share = saturating_add(share.trained_share, exchanged.back().trained_share);
    share.frozen_share = saturating_add(share.frozen_share, exchanged.back().frozen_share);
  }
  const std::vector<std::int64_t> sums_of_ties = tied_sums(plan);
  const bool is_ours = plan.step_end == StepEnd::kUpdate;
  const bool shards_state = replicas.degree > 1 && (replicas.zero1 || replicas.zero3);
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    RankMemory& of = memory[rank];
    // A parameter with several uses here has one state.
    const std::int64_t num_trained =
        shards_state ? std::min(parameters[rank].num_trained, shares[rank].trained_numbers)
                     : parameters[rank].num_trained;
    // A caller's optimizer reads `.grad`, in the dtype of the parameter, and has its state in that.
    std::int64_t shown = parameters[rank].shown_bytes, trained = parameters[rank].trained_bytes;
    if (shards_state) {
      shown = std::min(shown, shares[rank].trained_share);
      trained = std::min(trained, shares[rank].trained_share);
    }
    if (!is_ours) of.gradient_bytes = saturating_add(of.gradient_bytes, shown);
    of.optimizer_bytes = moments_of(plan.optimizer) * (is_ours ? kFloat32 * num_trained : trained);
    if (replicas.degree > 1 && replicas.zero3) {
      of.parameter_bytes = std::min(of.parameter_bytes, saturating_add(shares[rank].trained_share,
                                                                       shares[rank].frozen_share));
    }
    // Each storage once, as it is saved: a parameter for all its uses, frozen ones too.
    // An adapter is saved alone.
    if (plan.keeps_snapshot) {
      of.snapshot_bytes =
          (saves_adapter ? parameters[rank].of_adapters : of.parameter_bytes) + of.optimizer_bytes;
    }
    const RowActivations row = row_activations(plan.program.ranks[rank], activations, exchanged);
    of.activation_bytes = saturating_add(saturating_add(row.kept, row.pooled),
                                         mask_bytes_of(plan, static_cast<int>(rank)));
    of.running_bytes = row.peak - row.kept;
    of.gathered_bytes = std::min(row.gathered, row.exchanged);
    of.reduction_bytes = std::max(row.exchanged - of.gathered_bytes, sums_of_ties[rank] - row.peak);
  }
  return memory;
}

}  // namespace detail
}  // namespace sluice
