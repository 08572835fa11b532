#include <algorithm>

#include "plan/neighbours.h"

#include "plan/passes/passes.h"

namespace sluice {
namespace {

std::vector<int> trained_stages(const Program& program, int rank) {
  std::vector<int> stages;
  const auto add = [&](int stage) {
    const bool is_ours = program.stage_map.rank_of(stage) == rank;
    if (!is_ours || !has_weight_gradients(program.backward_of(stage))) return;
    if (std::find(stages.begin(), stages.end(), stage) == stages.end()) stages.push_back(stage);
  };
  for (const Action& action : program.ranks[rank])
    detail::for_each_half(action, [&](const Action& half) { add(half.stage); });
  for (int stage = 0; program.update_only && stage < program.num_stages(); ++stage) add(stage);
  return stages;
}

}  // namespace

Program add_optimizer_step(Program program, bool with_norm) {
  for (std::vector<Action>& row : program.ranks) {
    if (with_norm) row.push_back(Action::make(ActionKind::kReduceNorm));
    row.push_back(Action::make(ActionKind::kOptimizerStep));
  }
  return program;
}

Program split_optimizer_step(Program program) {
  detail::require_in_range(program);
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    std::vector<Action>& row = program.ranks[rank];
    const auto step = std::find(row.begin(), row.end(), Action::make(ActionKind::kOptimizerStep));
    if (step == row.end()) continue;
    std::vector<Action> updates;
    for (const int stage : trained_stages(program, rank))
      updates.push_back(Action::make(ActionKind::kUpdate, stage));
    if (updates.empty()) continue;
    row.insert(row.erase(step), updates.begin(), updates.end());
  }
  return program;
}

}  // namespace sluice
