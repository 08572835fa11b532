// Ranks can compute a stage's part of the gradient norm while they wait.
#include <algorithm>
#include <map>

#include "plan/neighbours.h"

#include "plan/passes/passes.h"

namespace sluice {
namespace {

struct Known {
  std::size_t behind;  // insert after this instruction
  std::size_t since;   // last instruction that computes the gradients or starts to reduce them
};

std::map<int, Known> known_gradients(const Program& program, const std::vector<Action>& row,
                                     std::size_t norm) {
  std::map<int, Known> stages;
  for (std::size_t index = 0; index < norm; ++index) {
    detail::for_each_half(row[index], [&](const Action& half) {
      if (detail::makes_weight_gradient(half.kind)) stages[half.stage] = {index, index};
    });
  }
  // Insert after the SENDs that follow, because other ranks wait for them.
  for (auto& [stage, known] : stages) {
    while (known.behind + 1 < norm && detail::is_send(row[known.behind + 1].kind)) ++known.behind;
  }
  const auto move_down = [&](int stage, std::size_t behind, std::size_t since) {
    const auto found = stages.find(stage);
    if (found == stages.end()) return;
    found->second.behind = std::max(found->second.behind, behind);
    found->second.since = std::max(found->second.since, since);
  };
  for (std::size_t index = 0; index < norm; ++index) {
    const Action& action = row[index];
    if (action.kind == ActionKind::kReduceGrad) move_down(action.stage, norm - 1, index);
    if (action.kind != ActionKind::kReduceTied || detail::number_of(program, action) < 0) continue;
    for (const int stage : program.tie_groups[action.group].stages) move_down(stage, index, index);
  }
  return stages;
}

}  // namespace

Program add_partial_norms(Program program) {
  detail::require_in_range(program);
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    std::vector<Action>& row = program.ranks[rank];
    const auto norm = std::find(row.begin(), row.end(), Action::make(ActionKind::kReduceNorm));
    if (norm == row.end()) continue;
    // Stages are in the order in which their reductions started.
    std::map<std::size_t, std::multimap<std::size_t, int>> stages;
    for (const auto& [stage, known] :
         known_gradients(program, row, static_cast<std::size_t>(norm - row.begin())))
      stages[known.behind].emplace(known.since, stage);
    std::vector<Action> with_norms;
    with_norms.reserve(row.size() + static_cast<std::size_t>(program.num_stages()));
    for (std::size_t index = 0; index < row.size(); ++index) {
      with_norms.push_back(row[index]);
      const auto here = stages.find(index);
      if (here == stages.end()) continue;
      for (const auto& [since, stage] : here->second)
        with_norms.push_back(Action::make(ActionKind::kPartialNorm, stage));
    }
    row = std::move(with_norms);
  }
  return program;
}

}  // namespace sluice
