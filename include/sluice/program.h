// A program: the exact instruction list of every rank for one training step.
//
// Owns: Program and the passes that lower a Schedule into it.
// Does not own: proof (verify.h), prediction (simulate.h), execution (executor.h).
//
// What instructions mean. SEND and RECV are posts: SEND hands over and goes on, RECV reserves and
// goes on; a compute action waits for the inputs it needs. A channel is one FIFO per (source rank,
// destination rank, activation or gradient). Between two stages of one rank nothing is transferred:
// the hand-over is the compute action's own.
//
// REDUCE_TIED, REDUCE_LOSS, GATHER_OUTPUTS and REDUCE_NORM are collectives of this program's ranks:
// every rank concerned executes them, in the same order. UNSHARD and REDUCE_GRAD are collectives
// along other axes (axes_of), where all ranks run the same row, and so is an UPDATE whose blocks
// replicas share. All seven are posts: they begin and go on, and the first instruction below that
// uses the result waits for it:
//   UNSHARD of a stage       a compute action, or the RESHARD, of the stage
//   REDUCE_GRAD of a stage   REDUCE_TIED of a group with a member in the stage, PARTIAL_NORM and
//                            UPDATE of the stage, REDUCE_NORM, OPTIMIZER_STEP
//   REDUCE_TIED              PARTIAL_NORM and UPDATE of a member, REDUCE_NORM, OPTIMIZER_STEP
//   REDUCE_LOSS, GATHER_OUTPUTS, REDUCE_NORM   UPDATE, OPTIMIZER_STEP
//   UPDATE                   OPTIMIZER_STEP
// What nobody used is waited for at the end of the row.
//
// PARTIAL_NORM is work of its rank alone that has time: the rank does it, from where it stands,
// whenever it would otherwise wait for a message, and what is left of it when its user comes:
// REDUCE_NORM, UPDATE of the stage, OPTIMIZER_STEP. REDUCE_NORM takes the norms of what no
// PARTIAL_NORM was about; OPTIMIZER_STEP updates the stages that no UPDATE above it was about. No
// weight is written before REDUCE_LOSS and REDUCE_NORM of the whole step are known: after a step
// that is not finite all weights are those of the step before.
//
// Every pass is Program -> Program, keeps the order of what was there, and can be tested alone.
// Thread-safety: values.
#pragma once

#include <string>
#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/flow.h"
#include "sluice/parts/mesh.h"
#include "sluice/parts/stage_backward.h"
#include "sluice/parts/stage_map.h"
#include "sluice/schedule.h"

namespace sluice {

// Parameters that are one: the stages that use it, ascending, each once.
struct TieGroup {
  std::string name;  // full name of the first use
  std::vector<int> stages;
};

// One pipeline: `ranks` are those of the mesh along the axis pp, and all that differ from one of
// them in other axes alone run the same row.
struct Program {
  int num_microbatches = 0;
  StageMap stage_map;                      // which rank has which stage
  Flow flow;                               // which stages a microbatch passes
  Mesh mesh;                               // its axis pp has num_ranks() ranks: these
  std::vector<std::vector<Action>> ranks;  // [rank][instruction]; no kIdle
  std::vector<TieGroup> tie_groups;        // by Action::group
  bool forward_only = false;               // evaluation: F, and no backward of any kind
  // What follows steps whose optimizer is the caller's: UPDATE and OPTIMIZER_STEP alone, of no
  // microbatches.
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

// Drops idle slots; microbatches flow along the chain of all stages. A schedule that already holds
// transfers (compute_comms) keeps them. With a stage that lives on no rank the passes exchange
// nothing.
Program to_program(const Schedule& schedule);

// ---- passes ----
// All throw Error(kInput) for an instruction whose stage or microbatch the program does not have.

// The forwards alone: every backward goes, a pair becomes its F; sets forward_only. For evaluation.
Program keep_forward(Program program);
// The other way round, an update by itself: OPTIMIZER_STEP on every rank; sets update_only.
Program keep_update(Program program);
// What nothing that is trained needs goes: W of stages that train nothing (a B becomes I), and
// below all that is trained every backward, with SEND_B and RECV_B where the program holds them.
// backwards: of every stage. Throws Error(kUsage) for another number of stages.
Program drop_frozen(Program program, std::vector<StageBackward> backwards);
// {s}I{m} with the {s}W{m} of the same stage and microbatch directly after it becomes {s}B{m}.
Program merge_backward(Program program);
// Inverse: every B becomes I, W. Halves of overlapped pairs stay.
Program split_backward(Program program);
// Every OVERLAP becomes its F then its backward.
Program split_overlap(Program program);
// SEND directly after its compute action (both halves of a pair: forward first); the matching RECV
// is placed on the destination at the same moment of the replay, so the order on every channel
// agrees by construction (torch `_add_send_recv` order). Same-rank neighbours exchange nothing.
// Throws Error(kInput) when the program holds transfers already, and, with the first stuck action
// of every rank, when the order cannot complete.
Program add_transfers(Program program);
// Moves every RECV down to just before the instruction that needs it, and on the lower of two
// ranks that exchange to before the next SEND to the same peer, without changing the order on a
// channel (torch
// `_defer_recv_ops`). Throws Error(kInput) for a RECV that nothing below it needs.
Program defer_receives(Program program);
// UNSHARD before a stage's use, RESHARD after, at most `max_active_stages` gathered at once
// (torch `_add_unshard_reshard`; its default is 3): the stages that the row uses next. A pair whose
// forward stage is the last of them brings its backward stage as well. Throws Error(kUsage) for a
// bound below 1.
Program add_unshard_reshard(Program program, int max_active_stages = 3);
// {s}REDUCE_GRAD directly after the stage's last gradient of weights; per_microbatch:
// {s}REDUCE_GRAD{m} directly after each.
Program add_reduce_grad(Program program, bool per_microbatch = false);
// {g}REDUCE_TIED for every group that spans several stages, in group order, on every rank that
// holds a member, after all compute of that rank.
Program add_tied_reductions(Program program, std::vector<TieGroup> groups);
// REDUCE_LOSS on every rank: above its REDUCE_NORM, UPDATE or OPTIMIZER_STEP, else at the end.
Program add_loss_reduction(Program program);
// GATHER_OUTPUTS on every rank: at the same place.
Program add_output_gathering(Program program);
// REDUCE_NORM (with_norm), OPTIMIZER_STEP at the end of every rank.
Program add_optimizer_step(Program program, bool with_norm);
// {s}PARTIAL_NORM in every row with REDUCE_NORM, of its stages with gradients of weights: where
// they are known, that is behind the last of them and the SEND of the same action, or behind the
// last REDUCE_TIED with a member in the stage; of a stage with REDUCE_GRAD directly above
// REDUCE_NORM, since waiting for it earlier would end its overlap with compute.
Program add_partial_norms(Program program);
// OPTIMIZER_STEP becomes {s}UPDATE of every stage of its row that has gradients of weights, in the
// order in which the row computes with them first (update_only: ascending); a row without such a
// stage keeps its OPTIMIZER_STEP. What replicas share of an update goes on while the next stage is
// updated.
Program split_optimizer_step(Program program);

struct LowerOptions {
  bool shard_parameters = false;  // UNSHARD / RESHARD
  int max_active_stages = 3;
  bool reduce_gradients = false;       // REDUCE_GRAD
  bool reduce_per_microbatch = false;  // of every microbatch by itself
  bool transfers = true;               // SEND / RECV
  bool defer_receives = false;
  bool merge_backward = false;  // adjacent I, W -> B
  bool forward_only = false;    // for evaluation: no backward, norm, update or sum of gradients
  bool update_only = false;     // OPTIMIZER_STEP alone, or what update_by_stage makes of it
  std::vector<StageBackward> backwards;  // of every stage; empty: all kFull
  std::vector<TieGroup> tie_groups;
  bool loss = false;     // REDUCE_LOSS
  bool outputs = false;  // GATHER_OUTPUTS
  bool optimizer_step = false;
  bool norm = false;
  bool partial_norms = false;    // PARTIAL_NORM
  bool update_by_stage = false;  // UPDATE in place of OPTIMIZER_STEP
};

// The passes by name, in the order in which lower() applies them for these options: forward only,
// update only, frozen, merge, unshard, reduce gradients, transfers, defer, tied reductions, loss,
// outputs, optimizer step, partial norms, update by stage.
struct NamedPass {
  std::string name;
  Program (*apply)(Program, const LowerOptions&) = nullptr;
};
std::vector<NamedPass> lowering_passes(const LowerOptions& options);
// Applies them, but for those whose instructions a compute_comms schedule holds already. Proves
// nothing; a debug build checks that no pass breaks what verify() accepted before it.
Program lower(const Schedule& schedule, const LowerOptions& options = {});

}  // namespace sluice
