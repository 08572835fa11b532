// A program: the exact instruction list of every rank for one training step.
//
// The meaning of instructions. SEND and RECV are posts: SEND hands over and does not wait, RECV
// reserves and does not wait; a compute action waits for the inputs that it needs. A channel is one
// FIFO per (source rank, destination rank, activation or gradient). Between two stages of one rank
// nothing is transferred: the hand-over is the compute action's own.
//
// REDUCE_TIED, REDUCE_LOSS, GATHER_OUTPUTS and REDUCE_NORM are collectives of this program's ranks:
// every rank concerned executes them, in the same order. UNSHARD and REDUCE_GRAD are collectives
// along other axes (axes_of), where all ranks run the same row, and so is an UPDATE whose blocks
// replicas share. All seven are posts: they start and do not wait; the first instruction below that
// uses the result waits for it:
//   UNSHARD of a stage       a compute action, or the RESHARD, of the stage
//   REDUCE_GRAD of a stage   REDUCE_TIED of a group with a member in the stage, PARTIAL_NORM and
//                            UPDATE of the stage, REDUCE_NORM, OPTIMIZER_STEP
//   REDUCE_TIED              PARTIAL_NORM and UPDATE of a member, REDUCE_NORM, OPTIMIZER_STEP
//   REDUCE_LOSS, GATHER_OUTPUTS, REDUCE_NORM   UPDATE, OPTIMIZER_STEP
//   UPDATE                   OPTIMIZER_STEP
// The end of the row waits for results that no instruction used.
//
// PARTIAL_NORM is work of its rank alone that can be put off: below it, the rank does pieces of it
// whenever it would otherwise wait for a message, and the rest when its first user needs it:
// REDUCE_NORM, UPDATE of the stage, OPTIMIZER_STEP. REDUCE_NORM computes the norms of stages
// without a PARTIAL_NORM; OPTIMIZER_STEP updates the stages without an UPDATE above it. No weight
// is written before REDUCE_LOSS and REDUCE_NORM of the whole step are known: after a step that is
// not finite all weights are those of the step before.
#pragma once

#include <string>
#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/flow.h"
#include "sluice/parts/layout.h"
#include "sluice/schedule.h"

namespace sluice {

// One parameter used by several stages: those stages, ascending, each once.
struct TieGroup {
  std::string name;  // full name of the first use
  std::vector<int> stages;
};

// One pipeline: `ranks` are those of the mesh along the axis pp; ranks of the mesh that differ from
// one of them only along other axes run the same row.
struct Program {
  int num_microbatches = 0;
  StageMap stage_map;                      // the rank of each stage
  Flow flow;                               // the stages that a microbatch passes
  Mesh mesh;                               // its axis pp has num_ranks() ranks: these
  std::vector<std::vector<Action>> ranks;  // [rank][instruction]; no kIdle
  std::vector<TieGroup> tie_groups;        // by Action::group
  bool forward_only = false;               // evaluation: F, and no backward of any kind
  // True for the program after steps whose optimizer is the caller's: UPDATE and OPTIMIZER_STEP
  // alone, without microbatches.
  bool update_only = false;
  std::vector<StageBackward> backwards;  // by stage; empty: all are kFull

  int num_ranks() const { return stage_map.num_ranks(); }
  int num_stages() const { return stage_map.num_stages(); }
  // Precondition: the stage exists.
  StageBackward backward_of(int stage) const {
    if (forward_only) return StageBackward::kNone;
    return backwards.empty() ? StageBackward::kFull : backwards[stage];
  }
};

struct LowerOptions {
  bool shard_parameters = false;  // UNSHARD / RESHARD
  int max_active_stages = 3;
  bool reduce_gradients = false;       // REDUCE_GRAD
  bool reduce_per_microbatch = false;  // REDUCE_GRAD of every microbatch by itself
  bool transfers = true;               // SEND / RECV
  bool defer_receives = false;
  bool merge_backward = false;  // adjacent I, W -> B
  bool forward_only = false;    // for evaluation: no backward, norm, update or sum of gradients
  bool update_only = false;     // OPTIMIZER_STEP, or with update_by_stage UPDATE, alone
  std::vector<StageBackward> backwards;  // by stage; empty: all are kFull
  std::vector<TieGroup> tie_groups;
  bool loss = false;     // REDUCE_LOSS
  bool outputs = false;  // GATHER_OUTPUTS
  bool optimizer_step = false;
  bool norm = false;
  bool partial_norms = false;    // PARTIAL_NORM
  bool update_by_stage = false;  // UPDATE in place of OPTIMIZER_STEP
};

// The program of a step, by the passes that the options ask for (docs/program.md), without passes
// whose instructions a compute_comms schedule already has. Proves nothing; a debug build checks
// that no pass breaks what verify() accepted before it. Throws Error(kInput) for an instruction
// whose stage or microbatch the schedule does not have.
Program lower(const Schedule& schedule, const LowerOptions& options = {});

}  // namespace sluice
