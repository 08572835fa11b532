#include "plan/predict/memory.h"

#include <set>
#include <string>

#include "base/saturate.h"
#include "plan/predict/activation_memory.h"

namespace sluice {

std::int64_t RankMemory::total_bytes() const {
  return saturating_add(held_bytes(), saturating_add(activation_bytes, running_bytes));
}

namespace detail {
namespace {

// Of sums of gradients and of the optimizer's state, whatever the parameters are.
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

}  // namespace

std::vector<RankMemory> predict_memory(const ModelSpec& model, const Partition& partition,
                                       const Program& program, const MicrobatchShape& microbatch,
                                       OptimizerKind optimizer, bool keeps_snapshot) {
  std::vector<RankMemory> memory(static_cast<std::size_t>(partition.num_ranks()));
  std::vector<std::set<std::string>> held(memory.size());
  std::vector<std::int64_t> num_trained(memory.size());
  std::vector<ActivationBytes> activations;
  for (const StageContent& stage : partition.stages) {
    activations.push_back(stage_activations(model, stage, microbatch));
    RankMemory& rank = memory[stage.rank];
    for (const int layer : stage.layers) {
      for (const ParameterSpec& parameter : model.layers[layer].parameters) {
        const bool is_trained = parameter.trainable && has_weight_gradients(stage.backward);
        if (is_trained) rank.gradient_bytes += kFloat32 * parameter.numel();
        const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
        if (!held[stage.rank].insert(name).second) continue;
        rank.num_parameters += parameter.numel();
        rank.parameter_bytes += dtype_bytes(parameter.dtype) * parameter.numel();
        if (parameter.trainable) num_trained[stage.rank] += parameter.numel();
      }
    }
  }
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    RankMemory& of = memory[rank];
    of.optimizer_bytes = moments_of(optimizer) * kFloat32 * num_trained[rank];
    // Each storage once, as it is saved: a parameter for all its uses, frozen ones too.
    if (keeps_snapshot) of.snapshot_bytes = of.parameter_bytes + of.optimizer_bytes;
    const RowActivations row = row_activations(program.ranks[rank], activations);
    of.activation_bytes = row.kept;
    of.running_bytes = row.peak - row.kept;
  }
  return memory;
}

}  // namespace detail
}  // namespace sluice
