#include "plan/action_kinds.h"

#include "plan/passes/passes.h"

namespace sluice {

Program split_overlap(Program program) {
  for (std::vector<Action>& row : program.ranks) {
    std::vector<Action> split;
    split.reserve(row.size() + row.size() / 2);
    for (const Action& action : row) {
      if (action.kind != ActionKind::kOverlap)
        split.push_back(action);
      else
        detail::for_each_half(action, [&](const Action& half) { split.push_back(half); });
    }
    row = std::move(split);
  }
  return program;
}

}  // namespace sluice
