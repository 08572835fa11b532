#include <algorithm>

#include "base/format.h"
#include "plan/neighbours.h"
#include "plan/passes/passes.h"
#include "sluice/error.h"

namespace sluice {

Program add_tied_reductions(Program program, std::vector<TieGroup> groups) {
  detail::require_in_range(program);
  if (groups.size() > std::size_t{Action::kMaxGroup} + 1) {
    throw Error(ErrorKind::kUsage,
                {.what = std::to_string(groups.size()) + " groups of tied parameters are too many",
                 .remedy = "a program has at most " + std::to_string(Action::kMaxGroup + 1)});
  }
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const TieGroup& tie = groups[group];
    std::vector<int> ranks;
    for (const int stage : tie.stages) {
      if (program.stage_map.rank_of(stage) < 0) {
        throw Error(
            ErrorKind::kInput,
            {.what = formatted("tied parameter '{}' is used by stage {}, which is on no rank",
                               tie.name, stage),
             .remedy = "place every stage on a rank"});
      }
      ranks.push_back(program.stage_map.rank_of(stage));
    }
    if (tie.stages.size() < 2) continue;
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    for (const int rank : ranks) {
      program.ranks[rank].push_back(Action::reduce_tied(static_cast<int>(group)));
    }
  }
  program.tie_groups = std::move(groups);
  return program;
}

}  // namespace sluice
