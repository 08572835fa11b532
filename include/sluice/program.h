// Lowers a schedule to a program: the exact instructions of every rank for one training step.
//
//     sluice::Program program = sluice::lower(sluice::make_schedule("1F1B", shape));
//
// docs/program.md has the meaning of every instruction. SEND, RECV, UNSHARD and reductions are
// posts: they start a transfer or collective without waiting. The first instruction that uses
// the result waits for it. Results that no instruction uses are awaited at the end of the step. A
// channel is one FIFO per (source rank, destination rank, activation or gradient). Stages of one
// rank exchange values without messages. All ranks of a collective run it in the same order.
//
// No weight is written before REDUCE_LOSS and REDUCE_NORM are complete, so a step with a loss or
// norm that is not finite leaves weights unchanged.
#pragma once

#include <string>
#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/flow.h"
#include "sluice/parts/layout.h"
#include "sluice/schedule.h"

namespace sluice {

struct TieGroup {
  std::string name;  // full name of the parameter's first use
  std::vector<int> stages;
};

// The program of one pipeline. Ranks whose coordinate on mesh axis pp is p run
// ranks[p].
struct Program {
  int num_microbatches = 0;
  StageMap stage_map;
  Flow flow;
  Mesh mesh;
  std::vector<std::vector<Action>> ranks;  // [rank][instruction], without kIdle
  std::vector<TieGroup> tie_groups;        // indexed by Action::group
  bool forward_only = false;
  // Whether the program only updates weights, with the caller's optimizer.
  bool update_only = false;
  std::vector<StageBackward> backwards;  // by stage; empty: all kFull

  int num_ranks() const { return stage_map.num_ranks(); }
  int num_stages() const { return stage_map.num_stages(); }
  // Returns the gradients that the stage's backward computes. The stage must exist.
  StageBackward backward_of(int stage) const {
    if (forward_only) return StageBackward::kNone;
    return backwards.empty() ? StageBackward::kFull : backwards[stage];
  }
};

struct LowerOptions {
  bool shard_parameters = false;
  int max_active_stages = 3;
  bool reduce_gradients = false;
  bool reduce_per_microbatch = false;
  bool transfers = true;
  bool defer_receives = false;
  bool merge_backward = false;  // adjacent input and weight gradients (I, W) become B
  bool forward_only = false;
  bool update_only = false;              // only OPTIMIZER_STEP, or UPDATE with update_by_stage
  std::vector<StageBackward> backwards;  // by stage; empty: all kFull
  std::vector<TieGroup> tie_groups;
  bool loss = false;
  bool outputs = false;
  bool optimizer_step = false;
  bool norm = false;
  bool partial_norms = false;
  bool update_by_stage = false;  // UPDATE instead of OPTIMIZER_STEP
};

// Runs the passes that the options select (docs/program.md). A schedule in compute_comms form
// already has the results of some passes, which are not run again. Does not verify() the result.
// Throws Error(kInput) for an instruction with an unknown stage or microbatch.
Program lower(const Schedule& schedule, const LowerOptions& options = {});

}  // namespace sluice
