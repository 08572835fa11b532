#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "plan/action_kinds.h"
#include "plan/passes/passes.h"
#include "sluice/program.h"

namespace sluice::testing {

inline std::vector<Action> row_of(const std::string& text) {
  std::vector<Action> row;
  std::size_t begin = 0;
  while (begin <= text.size() && !text.empty()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    row.push_back(parse_action(std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return row;
}

// Places stages by `stage_to_rank`. The number of microbatches follows from the rows.
inline Program program_of(const std::vector<std::string>& rows,
                          const std::vector<int>& stage_to_rank) {
  Program program;
  program.stage_map = StageMap(static_cast<int>(rows.size()), stage_to_rank);
  program.flow = Flow::chain(program.num_stages());
  program.mesh = Mesh({.pp = program.num_ranks()});
  for (const std::string& row : rows) {
    program.ranks.push_back(row_of(row));
    for (const Action& action : program.ranks.back()) {
      program.num_microbatches = std::max(
          {program.num_microbatches, action.microbatch + 1, action.backward_microbatch + 1});
    }
  }
  return program;
}

// Stages that no row names are on no rank.
inline Program program_of(const std::vector<std::string>& rows) {
  std::vector<int> stage_to_rank;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    for (const Action& action : row_of(rows[rank])) {
      for (const int stage : {action.stage, action.backward_stage}) {
        if (stage < 0) continue;
        if (stage >= static_cast<int>(stage_to_rank.size())) stage_to_rank.resize(stage + 1, -1);
        if (stage_to_rank[stage] < 0) stage_to_rank[stage] = static_cast<int>(rank);
      }
    }
  }
  return program_of(rows, stage_to_rank);
}

inline std::string text_of(const std::vector<Action>& row) {
  std::string text;
  for (const Action& action : row) {
    if (!text.empty()) text += ',';
    append_text(action, text);
  }
  return text;
}

inline std::vector<std::string> rows_of(const Program& program) {
  std::vector<std::string> rows;
  for (const std::vector<Action>& row : program.ranks) rows.push_back(text_of(row));
  return rows;
}

// A number in [low, high]. The same on every platform, unlike std::uniform_int_distribution.
inline int pick(std::mt19937& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
}
inline bool chance(std::mt19937& random, int percent) { return pick(random, 1, 100) <= percent; }

// Makes a random compute order that completes. Stages are placed at random. Backwards may be whole
// or split, and some actions are paired.
class RandomOrder {
 public:
  RandomOrder(std::mt19937& random, int max_ranks, int max_stages_per_rank, int max_microbatches)
      : random_(random) {
    const int num_ranks = pick(random, 1, max_ranks);
    const int num_stages = num_ranks * pick(random, 1, max_stages_per_rank);
    program_.num_microbatches = pick(random, 1, max_microbatches);
    program_.ranks.resize(static_cast<std::size_t>(num_ranks));
    program_.stage_map = place_stages(num_ranks, num_stages);
    program_.flow = Flow::chain(num_stages);
    program_.mesh = Mesh({.pp = num_ranks});
  }

  Program make() {
    std::vector<Action> ready;
    for (int mb = 0; mb < program_.num_microbatches; ++mb) ready.push_back(Action::forward(0, mb));
    const bool depth_first = chance(random_, 50);
    // percent of picks that take the oldest or newest ready action
    const int orderly = pick(random_, 0, 100);
    while (!ready.empty()) {
      std::size_t at = depth_first ? ready.size() - 1 : 0;
      if (!chance(random_, orderly)) at = static_cast<std::size_t>(random_()) % ready.size();
      const Action action = ready[at];
      ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
      std::vector<Action>& row = program_.ranks[rank_of(action)];
      const auto partner = std::find_if(ready.begin(), ready.end(), [&](const Action& other) {
        return rank_of(other) == rank_of(action) &&
               (other.kind == ActionKind::kBackward || other.kind == ActionKind::kBackwardInput);
      });
      if (action.kind == ActionKind::kForward && partner != ready.end() && chance(random_, 40)) {
        const Action backward = *partner;
        ready.erase(partner);
        row.push_back(Action::overlap(action, backward));
        finish(action, ready);
        finish(backward, ready);
      } else {
        row.push_back(action);
        finish(action, ready);
      }
    }
    return program_;
  }

 private:
  int rank_of(const Action& action) const { return program_.stage_map.rank_of(action.stage); }

  StageMap place_stages(int num_ranks, int num_stages) {
    const int style = pick(random_, 0, 2);
    std::vector<int> ranks;
    for (int stage = 0; stage < num_stages; ++stage) {
      const int position = stage % num_ranks, round = stage / num_ranks;
      int rank = position;
      if (style == 1 && round % 2 == 1) rank = num_ranks - 1 - position;
      if (style == 2 && round > 0) rank = pick(random_, 0, num_ranks - 1);
      ranks.push_back(rank);
    }
    return StageMap(num_ranks, ranks);
  }

  // A stage's backward is ready once its forward is done and the gradient from the next stage is
  // there.
  void finish(const Action& action, std::vector<Action>& ready) {
    const int stage = action.stage, mb = action.microbatch, last = program_.num_stages() - 1;
    if (action.kind == ActionKind::kForward) {
      ready.push_back(stage < last ? Action::forward(stage + 1, mb) : backward(stage, mb));
    } else if (action.kind != ActionKind::kBackwardWeight) {
      if (action.kind == ActionKind::kBackwardInput) {
        ready.push_back(Action::backward_weight(stage, mb));
      }
      if (stage > 0) ready.push_back(backward(stage - 1, mb));
    }
  }
  Action backward(int stage, int mb) {
    return chance(random_, 50) ? Action::backward(stage, mb) : Action::backward_input(stage, mb);
  }

  std::mt19937& random_;
  Program program_;
};

// Lowers the program with random passes.
inline Program lower_at_random(Program program, std::mt19937& random) {
  if (chance(random, 30)) program = merge_backward(std::move(program));
  if (chance(random, 10)) program = keep_forward(std::move(program));
  if (chance(random, 40)) program = add_unshard_reshard(std::move(program), pick(random, 1, 4));
  if (!program.forward_only && chance(random, 50))
    program = add_reduce_grad(std::move(program), chance(random, 40));
  if (chance(random, 85)) program = add_transfers(std::move(program));
  if (chance(random, 30)) program = defer_receives(std::move(program));
  if (chance(random, 40)) program = add_loss_reduction(std::move(program));
  if (chance(random, 30)) program = add_output_gathering(std::move(program));
  if (program.forward_only) return program;
  if (chance(random, 30)) {
    std::vector<TieGroup> groups(static_cast<std::size_t>(pick(random, 1, 2)));
    for (TieGroup& group : groups) {
      for (int stage = 0; stage < program.num_stages(); ++stage) {
        if (chance(random, 50)) group.stages.push_back(stage);
      }
    }
    program = add_tied_reductions(std::move(program), groups);
  }
  if (chance(random, 40)) program = add_optimizer_step(std::move(program), chance(random, 50));
  return program;
}

}  // namespace sluice::testing
