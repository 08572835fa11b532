#include "plan/choose/cut_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plan/predict/memory.h"
#include "plan/step_program.h"

namespace sluice::detail {

CutMemory::CutMemory(const Question& question, const Cutting& cutting, const Schedule& schedule)
    : question_(question),
      cutting_(cutting),
      schedule_(schedule),
      has_frozen_(std::any_of(question.base().model.layers.begin(),
                              question.base().model.layers.end(),
                              [](const LayerInfo& layer) { return !layer.trains(); })),
      known_(static_cast<std::size_t>(cutting.stage_map().num_ranks())) {}

std::int64_t CutMemory::peak(const std::vector<int>& starts, std::int64_t enough) {
  std::vector<StageBackward> backwards;
  if (has_frozen_) {
    for (const StageContent& stage : cutting_.outline(starts).stages)
      backwards.push_back(stage.backward);
  }
  if (rows_.ranks.empty() || backwards != backwards_) lower_rows(starts, backwards);
  const int num_ranks = cutting_.stage_map().num_ranks();
  std::int64_t peak = 0;
  for (int i = 0, rank = largest_; i < num_ranks && peak < enough; ++i) {
    const std::int64_t bytes = peak_of_rank(starts, rank);
    if (bytes > peak) largest_ = rank;
    peak = std::max(peak, bytes);
    rank = (rank + 1) % num_ranks;
  }
  return peak;
}

// Omits transfers, which do not affect the activations that a rank keeps.
void CutMemory::lower_rows(const std::vector<int>& starts,
                           const std::vector<StageBackward>& backwards) {
  Plan plan = question_.base();
  plan.partition = cutting_.at(starts);
  LowerOptions lowering = lowering_of(plan);
  lowering.transfers = false;
  rows_ = lower(schedule_, lowering);
  backwards_ = backwards;
  for (auto& known : known_) known.clear();
}

std::int64_t CutMemory::peak_of_rank(const std::vector<int>& starts, int rank) {
  auto& known = known_[static_cast<std::size_t>(rank)];
  Stages stages = stages_of(starts, rank);
  if (const auto found = known.find(stages); found != known.end()) return found->second;
  Partition partition = cutting_.outline(starts);
  for (StageContent& stage : partition.stages) {
    std::set_intersection(stage.layers.begin(), stage.layers.end(), question_.again().begin(),
                          question_.again().end(), std::back_inserter(stage.recomputed));
  }
  const auto& row = rows_.ranks[static_cast<std::size_t>(rank)];
  const std::int64_t bytes = rank_memory(question_.base(), partition, rank, row).total_bytes();
  known.emplace(std::move(stages), bytes);
  return bytes;
}

CutMemory::Stages CutMemory::stages_of(const std::vector<int>& starts, int rank) const {
  const StageMap& map = cutting_.stage_map();
  Stages stages;
  for (int stage = 0; stage < map.num_stages(); ++stage) {
    if (map.rank_of(stage) != rank) continue;
    const auto next = static_cast<std::size_t>(stage) + 1;
    stages.push_back(starts[next - 1]);
    stages.push_back(next < starts.size() ? starts[next] : -1);
  }
  return stages;
}

}  // namespace sluice::detail
