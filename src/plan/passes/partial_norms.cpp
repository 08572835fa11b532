// {s}PARTIAL_NORM where the gradients of the stage are known, for the rank to do while it waits.
#include <algorithm>
#include <map>

#include "plan/neighbours.h"

namespace sluice {
namespace {

// Behind which instruction of its row each stage's gradients are known, by stage.
std::map<int, std::size_t> known_behind(const Program& program, const std::vector<Action>& row,
                                        std::size_t norm) {
  std::map<int, std::size_t> behind;
  for (std::size_t index = 0; index < norm; ++index) {
    detail::for_each_half(row[index], [&](const Action& half) {
      if (detail::makes_weight_gradient(half.kind)) behind[half.stage] = index;
    });
  }
  // Others wait for what the compute action sends.
  for (auto& [stage, known] : behind) {
    while (known + 1 < norm && detail::is_send(row[known + 1].kind)) ++known;
  }
  const auto move_down = [&](int stage, std::size_t index) {
    if (const auto found = behind.find(stage); found != behind.end())
      found->second = std::max(found->second, index);
  };
  for (std::size_t index = 0; index < norm; ++index) {
    const Action& action = row[index];
    if (action.kind == ActionKind::kReduceGrad) move_down(action.stage, norm - 1);
    if (action.kind != ActionKind::kReduceTied || detail::number_of(program, action) < 0) continue;
    for (const int stage : program.tie_groups[action.group].stages) move_down(stage, index);
  }
  return behind;
}

}  // namespace

Program add_partial_norms(Program program) {
  detail::require_in_range(program);
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    std::vector<Action>& row = program.ranks[rank];
    const auto norm = std::find(row.begin(), row.end(), Action::make(ActionKind::kReduceNorm));
    if (norm == row.end()) continue;
    const auto behind = known_behind(program, row, static_cast<std::size_t>(norm - row.begin()));
    std::multimap<std::size_t, int> stages;
    for (const auto& [stage, known] : behind) stages.emplace(known, stage);
    std::vector<Action> with_norms;
    with_norms.reserve(row.size() + stages.size());
    for (std::size_t index = 0; index < row.size(); ++index) {
      with_norms.push_back(row[index]);
      const auto [first, last] = stages.equal_range(index);
      for (auto known = first; known != last; ++known)
        with_norms.push_back(Action::make(ActionKind::kPartialNorm, known->second));
    }
    row = std::move(with_norms);
  }
  return program;
}

}  // namespace sluice
