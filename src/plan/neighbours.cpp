#include "plan/neighbours.h"

#include <algorithm>

#include "base/format.h"
#include "base/places.h"
#include "base/text.h"
#include "plan/action_kinds.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

template <typename Wanted>
bool any_action(const Program& program, Wanted wanted) {
  return std::any_of(program.ranks.begin(), program.ranks.end(), [&](const auto& row) {
    return std::any_of(row.begin(), row.end(), [&](const Action& a) { return wanted(a.kind); });
  });
}

bool in_range(int value, int count) { return value >= 0 && value < count; }

bool is_member(const Program& program, int stage, const Action& reduce_tied) {
  if (number_of(program, reduce_tied) < 0) return false;
  const std::vector<int>& stages = program.tie_groups[reduce_tied.group].stages;
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

bool fits(const Program& program, const Action& action) {
  if (!names_stage(action.kind)) return true;
  if (!in_range(action.stage, program.num_stages())) return false;
  if (action.kind == ActionKind::kOverlap &&
      (!in_range(action.backward_stage, program.num_stages()) ||
       !in_range(action.backward_microbatch, program.num_microbatches))) {
    return false;
  }
  const bool has_microbatch = is_compute(action.kind) || is_transfer(action.kind) ||
                              (action.kind == ActionKind::kReduceGrad && action.microbatch >= 0);
  return !has_microbatch || in_range(action.microbatch, program.num_microbatches);
}

}  // namespace

bool holds_transfers(const Program& program) { return any_action(program, is_transfer); }

bool holds(const Program& program, ActionKind kind) {
  return any_action(program, [kind](ActionKind each) { return each == kind; });
}

bool updates(const Program& program) {
  return any_action(program, [](ActionKind kind) {
    return kind == ActionKind::kOptimizerStep || kind == ActionKind::kUpdate;
  });
}

int number_of(const Program& program, const Action& collective) {
  const int num_groups = static_cast<int>(program.tie_groups.size());
  if (collective.kind == ActionKind::kReduceLoss) return num_groups;
  if (collective.kind == ActionKind::kGatherOutputs) return num_groups + 1;
  if (collective.kind == ActionKind::kReduceNorm) return num_groups + 2;
  return in_range(collective.group, num_groups) ? collective.group : -1;
}

std::vector<int> members_of(const Program& program, const Action& collective) {
  std::vector<int> ranks;
  if (collective.kind != ActionKind::kReduceTied) {
    for (int rank = 0; rank < program.mesh.size(Axis::kPp); ++rank) ranks.push_back(rank);
    return ranks;
  }
  for (const int stage : program.tie_groups[collective.group].stages) {
    if (program.stage_map.rank_of(stage) >= 0) ranks.push_back(program.stage_map.rank_of(stage));
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

bool uses(const Program& program, const Action& user, const Action& post) {
  if (user.kind == ActionKind::kOptimizerStep) return post.kind != ActionKind::kUnshard;
  // UPDATE and PARTIAL_NORM only use the results of their own stage.
  const bool is_update = user.kind == ActionKind::kUpdate;
  const bool ends_stage = is_update || user.kind == ActionKind::kPartialNorm;
  switch (post.kind) {
    case ActionKind::kUnshard:
      if (user.kind == ActionKind::kReshard) return user.stage == post.stage;
      return is_compute(user.kind) &&
             (user.stage == post.stage || user.backward_stage == post.stage);
    case ActionKind::kReduceGrad:
      if (user.kind == ActionKind::kReduceTied && number_of(program, user) >= 0)
        return is_member(program, post.stage, user);
      if (ends_stage) return user.stage == post.stage;
      return user.kind == ActionKind::kReduceNorm;
    case ActionKind::kReduceTied:
      if (ends_stage) return is_member(program, user.stage, post);
      return user.kind == ActionKind::kReduceNorm;
    case ActionKind::kPartialNorm:
      return user.kind == ActionKind::kReduceNorm || (is_update && user.stage == post.stage);
    case ActionKind::kReduceLoss:
    case ActionKind::kGatherOutputs:
    case ActionKind::kReduceNorm:
      return is_update;
    default:
      return false;
  }
}

std::string location_text(const Program& program, int rank, int index) {
  return instruction_place(rank, index, to_text(program.ranks[rank][index]));
}

void require_in_range(const Program& program) {
  if (program.ranks.size() != static_cast<std::size_t>(program.num_ranks())) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("the program has {} rows for {}", program.ranks.size(),
                                   counted(program.num_ranks(), "rank")),
                 .remedy = "give one row per rank"});
  }
  if (program.mesh.size(Axis::kPp) != program.num_ranks()) {
    throw Error(
        ErrorKind::kInput,
        {.what = formatted("the mesh of the program has {} along pp, but the program has {}",
                           counted(program.mesh.size(Axis::kPp), "rank"), program.num_ranks()),
         .remedy = "make the mesh for this program"});
  }
  if (program.flow.num_stages() != program.num_stages() ||
      !program.flow.covers(program.num_microbatches)) {
    throw Error(ErrorKind::kInput,
                {.what = "the program's flow is not for " + counted(program.num_stages(), "stage") +
                         " and " + counted(program.num_microbatches, "microbatch"),
                 .remedy = "make the flow for this program"});
  }
  if (!program.backwards.empty() &&
      program.backwards.size() != static_cast<std::size_t>(program.num_stages())) {
    throw Error(
        ErrorKind::kInput,
        {.what = formatted("the program describes the backward of {} of {}",
                           counted(static_cast<std::int64_t>(program.backwards.size()), "stage"),
                           program.num_stages()),
         .remedy = "describe the backward of every stage, or of none"});
  }
  for (int stage = 0; stage < program.num_stages(); ++stage) {
    if (program.stage_map.rank_of(stage) >= program.num_ranks()) {
      throw Error(ErrorKind::kInput,
                  {.what = formatted("stage {} is placed on rank {} of {}", stage,
                                     program.stage_map.rank_of(stage), program.num_ranks()),
                   .remedy = "count ranks from 0"});
    }
  }
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    const std::vector<Action>& row = program.ranks[rank];
    const auto wrong =
        std::find_if_not(row.begin(), row.end(), [&](const Action& a) { return fits(program, a); });
    if (wrong == row.end()) continue;
    throw Error(ErrorKind::kInput,
                {.what = "the program has " + counted(program.num_stages(), "stage") + " and " +
                         counted(program.num_microbatches, "microbatch") +
                         ", so it cannot have this instruction",
                 .where = location_text(program, rank, static_cast<int>(wrong - row.begin())),
                 .remedy = "count stages and microbatches from 0"});
  }
}

}  // namespace sluice::detail
